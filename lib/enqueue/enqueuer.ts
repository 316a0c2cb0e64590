import type { QueryRunner } from 'typeorm';
import type { PayloadEncryption } from '../encryption.js';
import type { NewMessage } from '../message.js';
import { OutboxDuplicateMessageError, OutboxError, OutboxMessageError } from '../outbox.errors.js';
import type { SqlExecutor } from '../store/executors/executor.js';
import type { InsertReport } from '../store/outbox-store.js';
import { statement } from '../store/sql.js';
import type { TransactionListener } from './transaction-listener.js';
import { watchTransaction } from './transaction-watch.js';
import { Destinations, type Destination } from './destinations.js';
import { refuseUnknown } from './draft.js';
import { ENQUEUE_OPTION_NAMES, type EnqueueOptions } from './enqueue-options.js';
import { EventRegistry } from './event-registry.js';
import type { EnqueueRuntime } from './runtime.js';
import { sealPayloads } from './seal-payloads.js';
import { ID_PREFIX, toMessage, type MessageRules } from './to-message.js';
import { uuidV7 } from './uuid-v7.js';

const NO_OPTIONS: EnqueueOptions = Object.freeze({});
/** Statements that both PostgreSQL and MySQL know. */
const SAVEPOINT = statement(undefined, 'savepoint outbox_enqueue').bind();
const ROLLBACK = statement(undefined, 'rollback to savepoint outbox_enqueue').bind();
const RELEASE = statement(undefined, 'release savepoint outbox_enqueue').bind();

/** Checks first, then one insert in the caller's transaction; what was not written never happened. */
export class Enqueuer {
  /** @internal */ readonly registry = new EventRegistry();
  /** @internal */ readonly listener: TransactionListener;
  /** @internal */ rules: MessageRules | undefined;

  constructor(readonly runtime: EnqueueRuntime) {
    const { hooks } = runtime;
    this.listener = {
      committed: (ids) => {
        runtime.committed();
        if (hooks.has('enqueued')) hooks.emit('enqueued', { ids });
      },
      rolledBack: (ids) => runtime.onRolledBack?.(ids),
    };
  }

  /** @returns one id per input, in order: the first message's id for a repeated `dedupKey` */
  async write(
    runner: QueryRunner,
    inputs: readonly unknown[],
    options: EnqueueOptions = NO_OPTIONS,
  ): Promise<string[]> {
    const { rows, ids } = this.prepare(inputs, options);
    if (rows.length === 0) return ids;
    const watch = watchTransaction(runner);
    return watch.write(this.listener, async () => {
      const { encryption } = this.runtime.options;
      const stored = encryption === undefined ? rows : await this.seal(rows, encryption);
      const holders = await this.insert(watch.guard(this.runtime.executorFor(runner)), stored);
      const written = rows.filter(({ id }) => !holders.has(id));
      if (written.length > 0) this.runtime.onEnqueued?.(written, runner);
      return {
        result: holders.size === 0 ? ids : ids.map((id) => holders.get(id) ?? id),
        ids: [...new Set(written.map(({ id }) => id))],
      };
    });
  }

  /** @internal Here, where the end of the transaction waits for it. */
  seal(rows: readonly NewMessage[], encryption: PayloadEncryption): Promise<NewMessage[]> {
    return sealPayloads(rows, encryption, this.startedRules().destinations);
  }

  transportId(name: string, subject: string): number {
    const [destination] = this.startedRules().destinations.named([name], subject);
    return (destination as Destination).id;
  }

  /** @internal Everything that can be refused is refused here, before any SQL. */
  prepare(inputs: readonly unknown[], options: EnqueueOptions): { rows: NewMessage[]; ids: string[] } {
    if (options !== NO_OPTIONS) refuseUnknown(options, ENQUEUE_OPTION_NAMES, 'Options of enqueue');
    const rules = this.startedRules();
    const rows: NewMessage[] = [];
    const ids: string[] = [];
    const seen = new Map<string, string>();
    for (let i = 0; i < inputs.length; i++) {
      const where = inputs.length > 1 ? `messages[${i}]: ` : '';
      const message = toMessage(inputs[i], options, rules, where);
      const { id, dedupKey } = message[0] as NewMessage;
      const first = dedupKey === null ? undefined : seen.get(dedupKey);
      ids.push(first ?? id);
      if (first === undefined) rows.push(...message);
      else if (dedupKey?.startsWith(ID_PREFIX)) throw duplicate([id]);
      if (dedupKey !== null) seen.set(dedupKey, first ?? id);
    }
    return { rows, ids };
  }

  /** @internal Returns new id → id of the message that holds its dedup key. */
  async insert(tx: SqlExecutor, rows: readonly NewMessage[]): Promise<Map<string, string>> {
    // A repeated id refuses the whole call: a savepoint takes back the other messages of the array, and whatever the
    // application sent on this connection meanwhile, which drivers advise against. Only for arrays with ids of the caller.
    const guarded =
      rows.some(({ id }) => id !== rows[0]?.id) && rows.some(({ dedupKey }) => dedupKey?.startsWith(ID_PREFIX));
    if (guarded) await tx.run(SAVEPOINT);
    const report = await this.runtime.store.insert(tx, rows);
    const repeated = repeatedIds(rows, report);
    if (guarded) {
      if (repeated.length > 0) await tx.run(ROLLBACK);
      await tx.run(RELEASE);
    }
    if (repeated.length > 0) throw duplicate(repeated);
    const holders = new Map<string, string>();
    for (const [index, holder] of report.duplicates) holders.set((rows[index] as NewMessage).id, holder);
    return holders;
  }

  /** @internal Made at the first use: the numbers of the transports are known only after the start. */
  startedRules(): MessageRules {
    return (this.rules ??= this.makeRules());
  }

  /** @internal */
  makeRules(): MessageRules {
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
    throw new OutboxMessageError('INVALID_MESSAGE', `Options of enqueue: ${name} cannot be given for an array.`, {
      hint: `Plain messages carry their own ${name}.`,
    });
  }
}

function repeatedIds(rows: readonly NewMessage[], { duplicates }: InsertReport): string[] {
  const repeated = new Set<string>();
  for (const index of duplicates.keys()) {
    const row = rows[index] as NewMessage;
    if (row.dedupKey?.startsWith(ID_PREFIX)) repeated.add(row.id);
  }
  return [...repeated];
}

function duplicate(ids: readonly string[]): OutboxDuplicateMessageError {
  const [id, ...others] = ids;
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  return new OutboxDuplicateMessageError(`A message with the id ${id}${more} was enqueued before.`, {
    hint: 'A repeated request may ignore this; use dedupKey to get the first id back instead.',
  });
}
