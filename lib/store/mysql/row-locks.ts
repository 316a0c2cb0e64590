import type { OutboxMessage } from '../../message.js';
import type { SqlConnection, SqlExecutor } from '../executors/executor.js';
import type { LockedOutcome, RowLockStore } from '../parked-store.js';
import type { TableNames } from '../schema/names.js';
import { messageFrom, parkedFrom, readMessage, readParked, SCHEDULED, WAITING, type Row } from './columns.js';
import type { MysqlParked } from './parked.js';
import { isDuplicate } from './retry.js';
import type { MysqlServer } from './server.js';
import type { MysqlSettle } from './settle.js';
import { statement } from '../sql.js';
import { marks, sized } from './statements.js';

const ALIVE = statement(undefined, 'select 1');
type Request = Parameters<RowLockStore['withLockedRows']>[0];

/** Rows locked in a transaction that stays open while they are published; the next start moves on through the buckets. */
export class MysqlRowLocks implements RowLockStore {
  /** @internal */ readonly sql: ReturnType<typeof lockStatements>;
  /** @internal */ start: number;

  constructor(
    readonly connection: (transport: number) => SqlConnection,
    readonly buckets: number,
    names: TableNames,
    readonly parts: { server: MysqlServer; settle: MysqlSettle; parked: MysqlParked },
  ) {
    this.sql = lockStatements(names);
    this.start = Math.floor(Math.random() * buckets); // instances that start together do not meet at the same rows
  }

  /** Not repeated as a whole when InnoDB picks it as a victim: its messages may be out already. The next pass has them again. */
  async withLockedRows(request: Request, work: Parameters<RowLockStore['withLockedRows']>[1]): Promise<number> {
    const durable = (await this.parts.server.state()).visibleIsDurable;
    this.start = (this.start + 1) % this.buckets;
    return this.connection(request.transport).transaction(async (tx) => {
      const messages = await this.lock(tx, request);
      if (messages.length === 0) return 0;
      await this.write(tx, request, await work(messages, durable, () => tx.run(ALIVE.bind())));
      return messages.length;
    });
  }

  /** @internal */ async lock(tx: SqlExecutor, { transport, limit }: Request): Promise<OutboxMessage[]> {
    const all = Array.from({ length: this.buckets }, (_, bucket) => bucket);
    const halves = [all.slice(this.start), all.slice(0, this.start)].filter((half) => half.length > 0);
    const messages: OutboxMessage[] = [];
    for (const [build, read] of [
      [this.sql.due, readParked],
      [this.sql.ready, readMessage],
    ] as const) {
      for (const half of halves) {
        if (messages.length === limit) return messages;
        const sql = build(half.length).bind(transport, ...half, limit - messages.length);
        messages.push(...(await tx.run(sql)).rows.map((row: Row) => read(row)));
      }
    }
    return messages;
  }

  /** @internal */ async write(
    tx: SqlExecutor,
    { transport, onPublished }: Request,
    { published, parked, reparked }: LockedOutcome,
  ): Promise<void> {
    const { settle, parked: waiting } = this.parts;
    const fromReady = published.filter((message) => message.parkedId === null);
    const fromParked = published.filter((message) => message.parkedId !== null);
    if (fromReady.length > 0) await settle.removeIn(tx, transport, fromReady, onPublished);
    if (fromParked.length > 0) await settle.settleParkedIn(tx, transport, fromParked, onPublished);
    if (parked.length > 0) await this.park(tx, transport, parked);
    if (reparked.length > 0) await waiting.reparkLocked(tx, reparked);
  }

  /** @internal An id that a foreign writer used twice stays in the hot table; what was published beside it is settled. */
  async park(tx: SqlExecutor, transport: number, entries: LockedOutcome['parked']): Promise<void> {
    try {
      await this.parts.settle.parkIn(tx, transport, entries);
    } catch (error) {
      if (!isDuplicate(error)) throw error; // a statement that failed this way leaves its transaction usable
      if (entries.length > 1) for (const entry of entries) await this.park(tx, transport, [entry]);
    }
  }
}

/**
 * Each is one scan of an index in its own order that ends at the limit, so that only rows that are returned stay locked:
 * a sort, or a union of branches, would lock what it throws away.
 */
function lockStatements({ ready, parked }: TableNames) {
  return {
    ready: sized(
      (n) => `select ${messageFrom('h')} from ${ready} h force index (primary)
      where h.transport = ? and h.bucket in (${marks(n)}) limit ? for update skip locked`,
    ),
    due: sized(
      (n) => `select ${messageFrom('p')}, ${parkedFrom('p')} from ${parked} p force index (due)
      where p.transport = ? and p.bucket in (${marks(n)}) and p.due_at <= utc_timestamp(6)
        and p.state in (${SCHEDULED}, ${WAITING}) limit ? for update skip locked`,
    ),
  };
}
