import type { LockTurn } from '../../../lib/store/lock-turns.js';
import type { LockedOutcome, LockSession, RowLockStore } from '../../../lib/store/parked-store.js';
import type { MemoryDatabase } from './memory-database.js';
import { park, settleReady, type Read } from './memory-ready.js';
import { repark, settleParked } from './memory-parked.js';
import { byDueTime, isLocked, type ReadyRow } from './memory-rows.js';
import type { MemoryTransaction } from './memory-transaction.js';
import type { Wire } from './memory-wire.js';

/** Rows locked in a transaction that stays open while they are published. */
export class MemoryLockedRows {
  /** @internal */ readonly transaction: MemoryTransaction;
  /** @internal */ over: AbortController | undefined;

  constructor(
    readonly database: MemoryDatabase,
    readonly request: Parameters<RowLockStore['withLockedRows']>[0],
  ) {
    this.transaction = database.begin();
  }

  lock({ buckets, tables }: LockTurn): Omit<Read, 'snapshot'> {
    const { database, transaction } = this;
    const { transport, limit } = this.request;
    transaction.demandOpen();
    const found = {
      due: buckets.flatMap((bucket) => this.dueRows(transport, bucket)),
      ready: buckets.flatMap((bucket) => database.readyRows(transport, bucket).filter((row) => !isLocked(row))),
    };
    const locked: ReadyRow[] = tables.flatMap((table): ReadyRow[] => found[table]).slice(0, limit);
    for (const bucket of buckets) database.dead?.walk(transport, bucket, '0');
    if (locked.length > 0) transaction.takeId();
    for (const row of locked) row.lockedBy = transaction;
    return {
      messages: locked.map((row) => database.message(row)),
      durable: !locked.some(({ asynchronous }) => asynchronous),
    };
  }

  session(wire: Wire): LockSession {
    this.over = new AbortController();
    if (this.transaction.state !== 'open') this.over.abort();
    return { ended: this.over.signal, alive: () => wire('alive', () => this.transaction.demandOpen()) };
  }

  write({ published, parked, reparked }: LockedOutcome): void {
    const { database, transaction } = this;
    const { transport, onPublished } = this.request;
    transaction.demandOpen();
    const isReady = ({ parkedId }: { parkedId: string | null }): boolean => parkedId === null;
    settleReady(transaction, transport, published.filter(isReady), onPublished);
    const rest = published.filter((message) => !isReady(message));
    settleParked(transaction, transport, rest, onPublished);
    park(transaction, transport, parked, () => true);
    repark(database, reparked, () => true);
    transaction.end('committed');
  }

  /** Nothing is written, and the rows are anybody's again; without an effect after the commit. */
  rollback(): void {
    if (this.transaction.state === 'open') this.transaction.end('rolledBack');
    this.over?.abort();
  }

  /** @internal */ dueRows(transport: number, bucket: number) {
    const now = this.database.now();
    return this.database
      .parkedRows(transport)
      .filter((row) => row.bucket === bucket && (row.state === 'scheduled' || row.state === 'waiting'))
      .filter((row) => row.dueAt !== null && row.dueAt <= now && !isLocked(row))
      .sort(byDueTime);
  }
}
