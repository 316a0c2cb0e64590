import type { NewMessage } from '../../../lib/outbox-message.js';
import type { InsertReport } from '../../../lib/store/outbox-store.js';
import type { DedupRow, ReadyRow } from './memory-rows.js';
import type { Blocked, MemoryTransaction } from './memory-transaction.js';

/**
 * One call of `insert`. It keeps what it has claimed while it waits for another transaction that holds a dedup key.
 * Rows of one call that share key and id are one message on its way to several transports.
 */
export class MemoryInsert {
  /** Dedup key → id of its first message in this call. */
  readonly wanted = new Map<string, string>();
  readonly claimed = new Map<string, DedupRow>();
  /** Dedup key → id of the message that holds it since before. */
  readonly foreign = new Map<string, string>();

  constructor(
    readonly transaction: MemoryTransaction,
    readonly messages: readonly NewMessage[],
  ) {
    for (const { dedupKey, id } of messages) {
      if (dedupKey !== null && !this.wanted.has(dedupKey)) this.wanted.set(dedupKey, id);
    }
  }

  run(): InsertReport | Blocked {
    this.transaction.demandOpen();
    this.transaction.waitsFor = undefined;
    const blocked = this.claim();
    if (blocked !== undefined) return blocked;
    const duplicates = this.duplicates();
    const fresh = this.messages.filter((_, index) => !duplicates.has(index));
    for (const message of fresh) if (!isScheduled(message)) this.addReady(message);
    for (const message of fresh) if (isScheduled(message)) this.addScheduled(message);
    return { duplicates };
  }

  /** Sorted, like every writer, so that two of them do not wait for each other. @internal */
  claim(): Blocked | undefined {
    const { transaction } = this;
    const { dedup } = transaction.database;
    for (const key of [...this.wanted.keys()].sort()) {
      if (this.claimed.has(key) || this.foreign.has(key)) continue;
      const holder = dedup.get(key);
      if (holder === undefined) this.hold(key);
      else if (holder.writer.state === 'open' && holder.writer !== transaction)
        return transaction.waitFor(holder.writer);
      else this.foreign.set(key, holder.id);
    }
    return undefined;
  }

  /** @internal */ hold(key: string): void {
    const { transaction } = this;
    const { dedup, now } = transaction.database;
    transaction.takeId();
    const id = this.wanted.get(key) as string;
    const row: DedupRow = { id, createdAt: now(), writer: transaction, places: [] };
    dedup.set(key, row);
    this.claimed.set(key, row);
    transaction.onRollback(() => dedup.delete(key));
  }

  /** @internal */ duplicates(): Map<number, string> {
    const duplicates = new Map<number, string>();
    for (const [index, { dedupKey, id }] of this.messages.entries()) {
      if (dedupKey === null) continue;
      const holder = this.foreign.get(dedupKey) ?? (this.wanted.get(dedupKey) as string);
      if (this.foreign.has(dedupKey) || holder !== id) duplicates.set(index, holder);
    }
    return duplicates;
  }

  /** @internal */ addReady(message: NewMessage): void {
    const { database } = this.transaction;
    const row = this.row(message);
    database.addReady(row);
    this.transaction.onRollback(() => database.removeReady(row));
  }

  /** @internal */ addScheduled(message: NewMessage): void {
    const { database } = this.transaction;
    const { parkedId } = database.addParked({
      ...this.row(message),
      state: 'scheduled',
      blocking: false,
      announced: false,
      attempts: 0,
      sendingEpoch: null,
      dueAt: message.deliverAt?.getTime() ?? database.now() + (message.delay ?? 0),
      diedAt: null,
      death: 0,
      lastError: null,
      progress: null,
    });
    this.transaction.onRollback(() => database.parked.delete(parkedId));
  }

  /** The id of the transaction is older than the number of the row. @internal */
  row(message: NewMessage): ReadyRow {
    const { transaction } = this;
    const { database, asynchronous } = transaction;
    transaction.takeId();
    const seq = transaction.reserved.shift() ?? database.takeSeq();
    const { id, transport, bucket, topic, key, type, version, contentType, headers, options, dedupKey } = message;
    if (dedupKey !== null) this.claimed.get(dedupKey)?.places.push({ transport, bucket, seq });
    const payload = message.payload === null ? null : Buffer.from(message.payload);
    const content = { id, transport, bucket, topic, key, type, version, contentType, headers, options, payload };
    const row = { ...content, seq, createdAt: database.now(), asynchronous, writer: transaction, lockedBy: undefined };
    transaction.rows.push(row);
    return row;
  }
}

const isScheduled = ({ delay, deliverAt }: NewMessage): boolean => delay !== null || deliverAt !== null;
