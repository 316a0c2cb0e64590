import { finished } from '../message/finished.js';
import { isObservable } from '../message/is-observable.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { problemsOf } from '../options/rules.js';
import type { ReceivedMessage } from '../consumer/index.js';
import { AtomicWrite } from '../enqueue/atomic-write.js';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { OutboxRollbackOnlyError, OutboxTransactionConflictError } from '../outbox.errors.js';
import type { OutboxTransaction } from '../outbox-data-layer.js';
import type { SqlConnection } from '../store/executor.js';
import { statement } from '../store/sql.js';
import type { CurrentTransaction } from '../transaction/current-transaction.js';
import type { DataLayer, Session } from '../transaction/data-layer.js';
import type { Claim, TakeClaim } from './claims.js';
import { identityOf, placeOf, type InboxMessage } from './identity.js';
import { concurrency, consumerName, type ResolvedInboxOptions } from './inbox.options.js';
import { receiveInto, type ReceiveOptions, type ReceiveOutcome } from './receive.js';
import { InboxService, type Effect, type InboxStats, type OnceOptions, type OnceOutcome } from './inbox.service.js';
import type { InboxTables } from './tables.js';

/** What an inbox is made of. The module builds it. */
export interface InboxRuntime {
  readonly options: ResolvedInboxOptions;
  readonly dataLayer: DataLayer;
  readonly current: CurrentTransaction;
  readonly tables: InboxTables;
  readonly take: TakeClaim;
  /** Of the application, where there is one. */
  readonly outbox?: OutboxService | undefined;
  /** Of its own, for what is no part of an effect. */
  connection(): SqlConnection;
}

/** The one of a Nest application. */
export class Inbox extends InboxService {
  constructor(private readonly runtime: InboxRuntime) {
    super();
  }

  override async once<T>(
    message: InboxMessage,
    ...rest: [Effect<T>] | [OnceOptions, Effect<T>]
  ): Promise<OnceOutcome<T>> {
    const [options, work] = rest.length === 1 ? [NO_OPTIONS, rest[0]] : rest;
    const claim = claimOf(this.runtime, message, options, work);
    const { current } = this.runtime;
    const session = await (options.tx === undefined ? current.ambient() : current.require(options.tx));
    if (session !== undefined) return within(this.runtime, session, claim, work, new Fate());
    for (let attempt = 1; ; attempt += 1) {
      const fate = new Fate();
      try {
        const outcome = await current.dataLayer.transaction(async (handle) =>
          within(this.runtime, await current.dataLayer.require(handle), claim, work, fate),
        );
        if (fate.isRolledBack) throw failed(claim.id);
        return outcome;
      } catch (error) {
        // Of what failed in front of the effect nothing is left, and nothing was seen elsewhere.
        if (fate.hasBegun || attempt === TRIES || !(error instanceof OutboxTransactionConflictError)) throw error;
      }
    }
  }

  override async receive(message: ReceivedMessage, options: ReceiveOptions = {}): Promise<ReceiveOutcome> {
    return receiveInto(this.runtime.outbox, message, options);
  }

  override get tx(): OutboxTransaction {
    const { current } = this.runtime;
    return ((current.scope.current() ?? current.require(undefined)) as Session).handle as OutboxTransaction;
  }

  override async stats(): Promise<InboxStats[]> {
    const text = `select consumer, count(*), sum(duplicates) from ${this.runtime.tables.inbox} group by consumer order by consumer`;
    const { rows } = await this.runtime.connection().run(statement(undefined, text).bind());
    return rows.map(([consumer, messages, duplicates]) => ({
      consumer: String(consumer),
      messages: Number(messages),
      duplicates: Number(duplicates),
    }));
  }
}

function claimOf({ options: module }: InboxRuntime, message: InboxMessage, options: OnceOptions, work: unknown): Claim {
  refuseUnknown(options, OPTION_NAMES, 'Options of inbox.once');
  if (typeof work !== 'function') refuse('inbox.once', 'work must be a function');
  const { consumer = module.consumer, onConcurrent = module.onConcurrent } = options;
  const problems = [
    ...problemsOf(consumerName, consumer, 'consumer'),
    ...problemsOf(concurrency, onConcurrent, 'onConcurrent'),
  ];
  if (problems.length > 0) refuse('inbox.once', problems.join('; '));
  const identity = identityOf(message);
  const { latest } = options;
  return {
    consumer,
    id: identity.id,
    refuse: onConcurrent === 'refuse',
    ...(latest === undefined ? {} : { latest: placeOf(identity, latest) }),
  };
}

async function within<T>(
  runtime: InboxRuntime,
  session: Session,
  claim: Claim,
  work: Effect<T>,
  fate: Fate,
): Promise<OnceOutcome<T>> {
  const watch = session.listen();
  const [state, { number }] = [watch.state, watch.state];
  const write = new AtomicWrite(watch, session.executor);
  const run = (): Promise<T> => completed(() => work(session.handle as OutboxTransaction));
  let isFirst = false;
  try {
    // With an id among what was written, a COMMIT that the server answers with ROLLBACK is told as such.
    isFirst = await watch.write(fate, async () => {
      const take = (): Promise<boolean> => runtime.take(write, session.executor, claim);
      const result = await write.whole(false, take);
      if (result) fate.unfinished = () => unfinished(claim.id);
      return { result, ids: [claim.id] };
    });
    if (!isFirst) return { status: 'duplicate' };
    fate.hasBegun = true;
    const result = await runtime.current.scope.run(session, run);
    await watch.write(fate, async () => ({ result: await demandWhole(watch, number, write, claim.id), ids: [] }));
    return { status: 'handled', result };
  } catch (error) {
    // Whoever swallows it would commit that a message was handled which was not, or go on behind what the server has undone.
    const isOpen = (): boolean => state.number === number && !state.ended;
    if (watch.losesTransactions && state.doubtful && isOpen()) await write.demandTransaction().catch(() => undefined);
    if ((isFirst && isOpen()) || (state.number === number && state.isLost))
      watch.written.spoil(failed(claim.id, error), fate);
    throw error;
  } finally {
    fate.unfinished = undefined;
  }
}

/** Somebody may have swallowed what undid the effect. */
async function demandWhole(watch: Watch, transaction: number, write: AtomicWrite, id: string): Promise<void> {
  if (watch.state.number !== transaction || watch.failed || watch.says('E')) throw failed(id);
  await write.whole(false, () => write.demandTransaction());
}

/** An Observable, which does nothing until it is subscribed to, and a generator run to their end inside; what they say is nobody's. */
async function completed<T>(work: () => Promise<T> | T): Promise<T> {
  const value = await work(); // once: the `then` of a query builder runs its query each time
  await finished(() => value);
  return isObservable(value) ? (undefined as T) : value;
}

type Watch = ReturnType<Session['listen']>;
type Listener = Parameters<Watch['write']>[0];
/** How the transaction ended, where it is ours. */
class Fate implements Listener {
  isRolledBack = false;
  /** Whether the effect has. */
  hasBegun = false;
  /** What whoever commits hears while the effect goes on. */
  unfinished: (() => OutboxRollbackOnlyError) | undefined;
  committed(): void {}
  rolledBack(): void {
    this.isRolledBack = true;
  }
}

const TRIES = 4;
const NO_OPTIONS: OnceOptions = {};
const OPTION_NAMES = ['tx', 'consumer', 'onConcurrent', 'latest'];

const failed = (id: string, cause?: unknown): OutboxRollbackOnlyError =>
  new OutboxRollbackOnlyError(`The effect of message ${id} failed, and its transaction cannot be committed.`, {
    hint: 'Let it roll back; or put outbox.transaction(…, { nested: true }) around inbox.once. Swallow no error of a statement.',
    cause,
  });
const unfinished = (id: string): OutboxRollbackOnlyError =>
  new OutboxRollbackOnlyError(`The effect of message ${id} goes on: its transaction cannot be committed now.`, {
    hint: 'Await inbox.once before the end of its transaction; one that takes too long ends by ROLLBACK.',
  });
