import type { OutboxMessage } from '../../../outbox-message.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import { LockTurns, type LockTurn } from '../../lock-turns.js';
import type { LockedOutcome, LockedReport, RowLockStore } from '../../parked-store.js';
import type { TableNames } from '../../names.js';
import { updateOf } from '../capabilities.js';
import { messageFrom, parkedFrom, readMessage, readParked, type Row } from '../columns.js';
import { SCHEDULED, WAITING } from '../../parked-state.js';
import type { MysqlParked } from '../parked/parked.js';
import type { MysqlServer } from '../schema/server.js';
import type { MysqlSettle } from '../ready/settle.js';
import { SettleOrRefuse, writeOrRefuse } from '../../write-or-refuse.js';
import { statement } from '../../sql.js';
import { jsonRows, lookUp, PARKED_IDS } from '../json-rows.js';
import { marks, sized } from '../statements.js';

const ALIVE = statement(undefined, 'select 1');
/** Due rows that one pass looks at behind those that others hold. */
const MOST_DUE = 10_000;
type Request = Parameters<RowLockStore['withLockedRows']>[0];

/** Rows locked in a transaction that stays open while they are published. */
export class MysqlRowLocks implements RowLockStore {
  private readonly sql: ReturnType<typeof lockStatements>;
  readonly turns: LockTurns;
  private readonly settling = new SettleOrRefuse();

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

  private async lock(
    tx: SqlExecutor,
    { transport, limit }: Request,
    { buckets, tables }: LockTurn,
  ): Promise<OutboxMessage[]> {
    // A list is looked up in the order of its numbers.
    const wrap = buckets.indexOf(0);
    const halves = [buckets.slice(0, wrap), buckets.slice(wrap)].filter((half) => half.length > 0);
    const messages: OutboxMessage[] = [];
    for (const table of tables) {
      for (const half of halves) {
        const left = limit - messages.length;
        if (left === 0) return messages;
        if (table === 'due') messages.push(...(await this.lockDue(tx, transport, half, left)));
        else {
          const { rows } = await tx.run(this.sql.ready(half.length).bind(transport, ...half, left));
          messages.push(...rows.map((row: Row) => readMessage(row)));
        }
      }
    }
    return messages;
  }

  /**
   * Found without locks, and locked by id: a scan of what is due that locks keeps the row behind the end of each bucket's part
   * as well, which falls due later, and which nobody else could send or cancel meanwhile.
   */
  async lockDue(
    tx: SqlExecutor,
    transport: number,
    buckets: readonly number[],
    limit: number,
  ): Promise<OutboxMessage[]> {
    const messages: OutboxMessage[] = [];
    // By id: what falls due meanwhile stands between those of the page before, and what is locked twice would be sent twice.
    const seen = new Set<string>();
    for (let page = limit; ; page *= 2) {
      const { rows } = await tx.run(this.sql.due(buckets.length).bind(transport, ...buckets, page));
      const fresh = rows.map(([id]) => String(id)).filter((id) => !seen.has(id));
      for (let at = 0; at < fresh.length && messages.length < limit;) {
        const ids = fresh.slice(at, at + limit - messages.length);
        at += ids.length;
        for (const id of ids) seen.add(id);
        const some = ids.map((id) => [BigInt(id)]);
        const locked = await tx.run(this.sql.lockDue.bind(jsonRows(some), transport));
        messages.push(...locked.rows.map((row: Row) => readParked(row)));
      }
      if (messages.length === limit || rows.length < page || page >= MOST_DUE) return messages;
    }
  }

  private async write(
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
      (n) => `select p.parked_id from ${parked} p force index (due)
      where p.transport = ? and p.bucket in (${marks(n)}) and p.due_at <= utc_timestamp(6)
        and p.state in (${SCHEDULED}, ${WAITING}) limit ?`,
    ),
    lockDue: statement(
      'lock due',
      `select ${messageFrom('p')}, ${parkedFrom('p')} from ${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p
      where p.transport = ? and p.due_at <= utc_timestamp(6) and p.state in (${SCHEDULED}, ${WAITING}) ${updateOf('p')} skip locked`,
    ),
  };
}
