import type { OutboxMessage } from '../../message.js';
import type { SqlConnection, SqlExecutor } from '../executors/executor.js';
import { LockTurns, type LockTurn } from '../lock-turns.js';
import type { LockedOutcome, LockedReport, RowLockStore } from '../parked-store.js';
import type { TableNames } from '../schema/names.js';
import { messageFrom, parkedFrom, readMessage, readParked, SCHEDULED, WAITING, type Row } from './columns.js';
import type { MysqlParked } from './parked.js';
import type { MysqlServer } from './server.js';
import type { MysqlSettle } from './settle.js';
import { SettleOrRefuse, writeOrRefuse } from '../write-or-refuse.js';
import { statement } from '../sql.js';
import { marks, sized } from './statements.js';

const ALIVE = statement(undefined, 'select 1');
type Request = Parameters<RowLockStore['withLockedRows']>[0];

/** Rows locked in a transaction that stays open while they are published. */
export class MysqlRowLocks implements RowLockStore {
  /** @internal */ readonly sql: ReturnType<typeof lockStatements>;
  /** @internal */ readonly turns: LockTurns;
  /** @internal */ readonly settling = new SettleOrRefuse();

  constructor(
    readonly connection: (transport: number) => SqlConnection,
    buckets: number,
    names: TableNames,
    readonly parts: { server: MysqlServer; settle: MysqlSettle; parked: MysqlParked },
  ) {
    this.sql = lockStatements(names);
    this.turns = new LockTurns(buckets, Math.floor(Math.random() * buckets)); // instances that start together do not meet at the same rows
  }

  /** Not repeated as a whole when InnoDB picks it as a victim: its messages may be out already. The next pass has them again. */
  async withLockedRows(request: Request, work: Parameters<RowLockStore['withLockedRows']>[1]): Promise<LockedReport> {
    const durable = (await this.parts.server.state()).visibleIsDurable;
    const turn = this.turns.next(request.transport);
    return this.connection(request.transport).transaction(async (tx, ended) => {
      const messages = await this.lock(tx, request, turn);
      if (messages.length === 0) return { locked: 0, refused: [] };
      const outcome = await work(messages, durable, { ended, alive: () => tx.run(ALIVE.bind()) });
      return { locked: messages.length, refused: await this.write(tx, request, outcome) };
    });
  }

  /** @internal */ async lock(
    tx: SqlExecutor,
    { transport, limit }: Request,
    { buckets, tables }: LockTurn,
  ): Promise<OutboxMessage[]> {
    // A list is looked up in the order of its numbers.
    const wrap = buckets.indexOf(0);
    const halves = [buckets.slice(0, wrap), buckets.slice(wrap)].filter((half) => half.length > 0);
    const messages: OutboxMessage[] = [];
    for (const table of tables) {
      const read = table === 'due' ? readParked : readMessage;
      for (const half of halves) {
        if (messages.length === limit) return messages;
        const sql = this.sql[table](half.length).bind(transport, ...half, limit - messages.length);
        messages.push(...(await tx.run(sql)).rows.map((row: Row) => read(row)));
      }
    }
    return messages;
  }

  /** @internal */ async write(
    tx: SqlExecutor,
    { transport, onPublished }: Request,
    { published, parked, reparked }: LockedOutcome,
  ): Promise<LockedReport['refused']> {
    const { settle, parked: waiting } = this.parts;
    const fromReady = published.filter((message) => message.parkedId === null);
    const fromParked = published.filter((message) => message.parkedId !== null);
    const settleReady = (some: typeof published) => settle.removeIn(tx, transport, some, onPublished);
    const settleParked = (some: typeof published) => settle.settleParkedIn(tx, transport, some, onPublished);
    return [
      ...(await this.settling.write(tx, fromReady, onPublished, settleReady)),
      ...(await this.settling.write(tx, fromParked, onPublished, settleParked)),
      ...(await writeOrRefuse(tx, parked, (some) => settle.parkIn(tx, transport, some))),
      ...(await writeOrRefuse(tx, reparked, (some) => waiting.reparkLocked(tx, some))),
    ];
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
