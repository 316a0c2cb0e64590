import { isScheduled, type NewMessage } from '../outbox-message.js';
import { OutboxDuplicateMessageError, OutboxError, OutboxMessageError } from '../outbox.errors.js';
import type { InsertReport } from '../store/outbox-store.js';
import type { TransactionListener } from '../transaction/after-commit.js';
import type { Session } from '../transaction/data-layer.js';
import { AtomicWrite } from './atomic-write.js';
import { Destinations } from './destinations.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { ENQUEUE_OPTION_NAMES, type EnqueueOptions } from './options.js';
import { EventRegistry } from './events/event-registry.js';
import type { EnqueueRuntime } from './runtime.js';
import { whenDue } from './scheduled.js';
import { encryptPayloads } from './encrypt-payloads.js';
import { ID_PREFIX, toMessage, type MessageRules } from './to-message.js';
import { uuidV7 } from '../message/uuid-v7.js';
import type { EnqueueTrace } from './tracing.js';

const NO_OPTIONS: EnqueueOptions = Object.freeze({});
const NO_HOLDERS = new Map<string, string>();

/** One of each per input: what the caller is told, and what the message was given, which differs for duplicates. */
interface Ids {
  readonly ids: string[];
  readonly own: readonly string[];
}

/** Checks first, then one insert in the caller's transaction; what was not written never happened. */
export class Enqueuer {
  private readonly registry = new EventRegistry();
  private readonly listener: TransactionListener;
  /** Where nothing can be published before its time. */ private readonly laterListener: TransactionListener;
  /** Of messages that were known. */ private readonly knownListener: TransactionListener;
  private rules: MessageRules | undefined;

  constructor(readonly runtime: EnqueueRuntime) {
    const { hooks } = runtime;
    const enqueued = (ids: readonly string[]): void => {
      if (hooks.has('enqueued')) hooks.emit('enqueued', { ids });
    };
    const rolledBack = (ids: readonly string[]): void => runtime.onRolledBack?.(ids);
    this.listener = {
      committed: (ids) => {
        runtime.workAppeared();
        enqueued(ids);
      },
      rolledBack,
      perhaps: () => runtime.workAppeared(),
    };
    this.laterListener = { committed: enqueued, rolledBack };
    this.knownListener = {
      committed: (ids) => {
        if (hooks.has('deduplicated')) hooks.emit('deduplicated', { ids });
      },
      rolledBack: () => undefined,
    };
  }

  /** Writes them in this session's transaction. @returns their ids; for a repeated `dedupKey`, the id of the first message that had it */
  async write(session: Session, inputs: readonly unknown[], options: EnqueueOptions = NO_OPTIONS): Promise<Ids> {
    const trace = this.runtime.tracing?.();
    try {
      const written = await this.writeTraced(session, inputs, options, trace);
      trace?.end();
      return written;
    } catch (error) {
      trace?.end(error);
      throw error;
    }
  }

  private async writeTraced(
    session: Session,
    inputs: readonly unknown[],
    options: EnqueueOptions,
    trace: EnqueueTrace | undefined,
  ): Promise<Ids> {
    const { rows, ids, own } = this.prepare(inputs, options, trace);
    if (rows.length === 0) return { ids, own };
    const watch = session.listen();
    return watch.write(rows.every(isScheduled) ? this.laterListener : this.listener, async () => {
      const { encryption } = this.runtime.options;
      // Here, where the end of the transaction waits for it.
      const stored =
        encryption === undefined ? rows : await encryptPayloads(rows, encryption, this.startedRules().destinations);
      const holders = await this.insert(new AtomicWrite(watch, session.executor), stored);
      const written = rows.filter(({ id }) => !holders.has(id));
      if (written.length > 0) this.runtime.onEnqueued?.(written);
      const result = { own, ids: holders.size === 0 ? ids : ids.map((id) => holders.get(id) ?? id) };
      const known = result.ids.filter((id, index) => id !== own[index]);
      const also = whenDue(written, this.runtime);
      if (known.length > 0) also.push({ listener: this.knownListener, ids: known });
      return { result, ids: [...new Set(written.map(({ id }) => id))], also };
    });
  }

  /** Everything that can be refused is refused here, before any SQL. */
  private prepare(
    inputs: readonly unknown[],
    options: EnqueueOptions,
    trace?: EnqueueTrace,
  ): Ids & { rows: NewMessage[] } {
    if (options !== NO_OPTIONS) refuseUnknown(options, ENQUEUE_OPTION_NAMES, 'Options of enqueue');
    const rules = this.startedRules();
    const rows: NewMessage[] = [];
    const ids: string[] = [];
    const own: string[] = [];
    const seen = new Map<string, string>();
    for (let i = 0; i < inputs.length; i++) {
      const where = inputs.length > 1 ? `messages[${i}]: ` : '';
      const message = toMessage(inputs[i], options, rules, where, trace);
      const { id, dedupKey } = message[0] as NewMessage;
      const first = dedupKey === null ? undefined : seen.get(dedupKey);
      ids.push(first ?? id);
      own.push(id);
      if (first === undefined) rows.push(...message);
      else if (dedupKey?.startsWith(ID_PREFIX)) throw duplicate([id]);
      if (dedupKey !== null) seen.set(dedupKey, first ?? id);
    }
    return { rows, ids, own };
  }

  /** Returns new id → id of the message that holds its dedup key. */
  private async insert(tx: AtomicWrite, rows: readonly NewMessage[]): Promise<Map<string, string>> {
    const { store } = this.runtime;
    // A repeated id refuses the whole call, and leaves the transaction usable.
    const refusable =
      rows.some(({ id }) => id !== rows[0]?.id) && rows.some(({ dedupKey }) => dedupKey?.startsWith(ID_PREFIX));
    const guarded = refusable || store.writer.mayLeavePart?.(rows) === true;
    const { duplicates } = await tx.whole(guarded, async () => {
      const report = await store.writer.insert(tx, rows);
      if (guarded) refuseRepeated(rows, report);
      return report;
    });
    if (duplicates.size === 0) return NO_HOLDERS;
    refuseRepeated(rows, { duplicates });
    const holders = new Map<string, string>();
    for (const [index, holder] of duplicates) holders.set((rows[index] as NewMessage).id, holder);
    return holders;
  }

  /** Made at the first use: the numbers of the transports are known only after the start. */
  private startedRules(): MessageRules {
    return (this.rules ??= this.makeRules());
  }

  private makeRules(): MessageRules {
    const { options, transportIds } = this.runtime;
    if (transportIds.size === 0) {
      throw new OutboxError('NOT_STARTED', 'The outbox has not started yet.', {
        hint: 'Enqueue after the application is initialized (app.init() or app.listen()).',
      });
    }
    const { serializer, idGenerator, maxPayloadBytes, ordering, buckets } = options;
    const destinations = new Destinations(options, transportIds);
    return {
      serializer,
      idGenerator: distinct(idGenerator),
      maxPayloadBytes,
      ordering,
      buckets,
      registry: this.registry,
      destinations,
    };
  }
}

/** Generated ids are not looked up: a generator that repeats itself would have consumers drop what they take for known. */
function distinct(generate: () => string): () => string {
  if (generate === uuidV7) return generate;
  let last: string | undefined;
  return () => {
    const id = generate();
    if (id === last)
      throw new OutboxMessageError('INVALID_MESSAGE', 'idGenerator returned the same id twice in a row.');
    return (last = id);
  };
}

/** Options that name one message cannot be meant for several. */
export function refuseForArray(options: EnqueueOptions | undefined): void {
  for (const name of ['id', 'dedupKey'] as const) {
    if (options?.[name] === undefined) continue;
    const problem = `${name} cannot be given for an array`;
    refuse('Options of enqueue', problem, 'INVALID_MESSAGE', `Plain messages carry their own ${name}.`);
  }
}

function refuseRepeated(rows: readonly NewMessage[], { duplicates }: InsertReport): void {
  const repeated = new Set<string>();
  for (const index of duplicates.keys()) {
    const row = rows[index] as NewMessage;
    if (row.dedupKey?.startsWith(ID_PREFIX)) repeated.add(row.id);
  }
  if (repeated.size > 0) throw duplicate([...repeated]);
}

function duplicate(ids: readonly string[]): OutboxDuplicateMessageError {
  const [id, ...others] = ids;
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  return new OutboxDuplicateMessageError(`A message with the id ${id}${more} was enqueued before.`, {
    hint: 'A repeated request may ignore this; use dedupKey to get the first id back instead.',
  });
}
