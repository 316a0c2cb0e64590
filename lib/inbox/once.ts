import { finished } from '../message/finished.js';
import { isObservable } from '../message/is-observable.js';
import { resolveFactory, row } from '../options/factory-options.js';
import { refuse } from '../options/refuse.js';
import { anything } from '../options/rules.js';
import { AtomicWrite } from '../enqueue/atomic-write.js';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { OutboxError, OutboxRollbackOnlyError, OutboxTransactionConflictError } from '../outbox.errors.js';
import type { OutboxTransaction, TransactionHandle } from '../outbox-data-layer.js';
import type { SqlConnection } from '../store/executor.js';
import type { CurrentTransaction } from '../transaction/current-transaction.js';
import type { DataLayer, Session } from '../transaction/data-layer.js';
import type { Claim, TakeClaim } from './claims.js';
import { count, type Counted, type Counts } from './counts.js';
import { identityOf, placeOf, type InboxMessage } from './identity.js';
import { concurrency, consumerName, type ResolvedInboxOptions } from './inbox.options.js';
import type { InboxTables } from './tables.js';

export interface OnceOptions {
  /** The transaction of the effect. Default: the one around this call; without one, a transaction of its own. */
  readonly tx?: TransactionHandle;
  /** Names the effect. Default: the module's. */
  readonly consumer?: string;
  /** Default: the module's. */
  readonly onConcurrent?: 'wait' | 'refuse';
  /**
   * Drops a message that is older than what was handled of its key: by a sequence of yours, such as the version of the row, or by `true`
   * for the time of the enqueue, by the clocks of the processes that enqueue.
   */
  readonly latest?: true | number | bigint | string;
}

/** What became of a message: only `handled` has run the effect. */
export type OnceOutcome<T> =
  | { readonly status: 'handled'; readonly result: T }
  /** It was handled before; with `latest`, it or something later of its key. */
  | { readonly status: 'duplicate' };

export type Effect<T> = (tx: OutboxTransaction) => Promise<T> | T;

/** What an inbox is made of. The module builds it. */
export interface InboxRuntime {
  readonly name: string;
  readonly options: ResolvedInboxOptions;
  readonly dataLayer: DataLayer;
  readonly current: CurrentTransaction;
  readonly tables: InboxTables;
  readonly counts: Counts;
  readonly take: TakeClaim;
  /** Of the application, where there is one. */
  readonly outbox?: OutboxService | undefined;
  /** Of its own, for what is no part of an effect. */
  connection(): SqlConnection;
}

/** See `InboxService.once`. */
export async function once<T>(
  runtime: InboxRuntime,
  message: InboxMessage,
  given: OnceOptions,
  work: Effect<T>,
): Promise<OnceOutcome<T>> {
  const options: OnceOptions = resolveFactory({ factory: 'inbox.once', rows: ROWS }, given);
  if (typeof work !== 'function') refuse('inbox.once', 'work must be a function');
  const claim = claimOf(runtime, message, options);
  const { current, dataLayer, counts } = runtime;
  const joined = await (options.tx === undefined ? current.ambient() : current.require(options.tx));
  const attempt = async (fate: Fate): Promise<OnceOutcome<T>> => {
    const run = (session: Session): Promise<OnceOutcome<T>> => within(runtime, session, claim, work, fate);
    if (joined !== undefined) return run(joined);
    return dataLayer.transaction(async (handle) => run(await dataLayer.require(handle)));
  };
  for (let tries = joined === undefined ? TRIES : 1; ; tries -= 1) {
    const fate = new Fate((counted) => count(counts, claim.consumer, counted));
    try {
      const outcome = await attempt(fate);
      if (fate.isRolledBack) throw failed(claim.id);
      if (joined === undefined) fate.committed();
      return outcome;
    } catch (error) {
      // Of what failed in front of the effect nothing is left, and nothing was seen elsewhere.
      const isAgain = !fate.hasBegun && tries > 1 && error instanceof OutboxTransactionConflictError;
      const isBusy = !fate.hasBegun && error instanceof OutboxError && error.code === 'IN_PROGRESS';
      fate.tell(isAgain ? 'retried' : isBusy ? 'busy' : 'failed');
      if (!isAgain) throw error;
    }
  }
}

function claimOf({ options: module }: InboxRuntime, message: InboxMessage, options: OnceOptions): Claim {
  const { consumer, onConcurrent, latest } = { ...module, ...options };
  const identity = identityOf(message);
  const place = latest === undefined ? {} : { latest: placeOf(identity, latest) };
  return { consumer, id: identity.id, refuse: onConcurrent === 'refuse', ...place };
}
const ROWS = { tx: row(anything), consumer: row(consumerName), onConcurrent: row(concurrency), latest: row(anything) };

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
  try {
    // With an id among what was written, a COMMIT that the server answers with ROLLBACK is told as such.
    await watch.write(fate, async () => {
      const isFirst = await write.whole(false, () => runtime.take(write, session.executor, claim));
      fate.means = isFirst ? 'handled' : claim.latest === undefined ? 'duplicate' : 'stale';
      if (isFirst) fate.unfinished = () => unfinished(claim.id);
      return { result: undefined, ids: [claim.id] };
    });
    if (!fate.hasBegun) return { status: 'duplicate' };
    const result = await runtime.current.scope.run(session, run);
    await watch.write(fate, async () => ({ result: await demandWhole(watch, number, write, claim.id), ids: [] }));
    return { status: 'handled', result };
  } catch (error) {
    // Whoever swallows it would commit that a message was handled which was not, or go on behind what the server has undone.
    const isOpen = (): boolean => state.number === number && !state.ended;
    if (watch.losesTransactions && state.doubtful && isOpen()) await write.demandTransaction().catch(() => undefined);
    if ((fate.hasBegun && isOpen()) || (state.number === number && state.isLost))
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
/** How the transaction ended, and what that makes of the message. */
class Fate implements Listener {
  isRolledBack = false;
  /** What the message is by the commit. */
  means: Counted = 'failed';
  /** What whoever commits hears while the effect goes on. */
  unfinished: (() => OutboxRollbackOnlyError) | undefined;
  private isTold = false;

  constructor(private readonly counted: (counted: Counted) => void) {}

  /** Whether the effect has. */
  get hasBegun(): boolean {
    return this.means === 'handled';
  }
  committed(): void {
    this.tell(this.means);
  }
  rolledBack(): void {
    this.isRolledBack = true;
    this.tell('failed');
  }
  /** Once. */
  tell(counted: Counted): void {
    if (!this.isTold) this.counted(counted);
    this.isTold = true;
  }
}

const TRIES = 4;

const failed = (id: string, cause?: unknown): OutboxRollbackOnlyError =>
  new OutboxRollbackOnlyError(`The effect of message ${id} failed, and its transaction cannot be committed.`, {
    hint: 'Let it roll back; or put outbox.transaction(…, { nested: true }) around inbox.once. Swallow no error of a statement.',
    cause,
  });
const unfinished = (id: string): OutboxRollbackOnlyError =>
  new OutboxRollbackOnlyError(`The effect of message ${id} goes on: its transaction cannot be committed now.`, {
    hint: 'Await inbox.once before the end of its transaction; one that takes too long ends by ROLLBACK.',
  });
