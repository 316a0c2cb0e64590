import type { OutboxMessage } from '../../../outbox-message.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import { LockTurns, type LockTurn } from '../../lock-turns.js';
import type { LockedOutcome, LockedReport, RowLockStore } from '../../parked-store.js';
import type { TableNames } from '../../names.js';
import { SettleOrRefuse, writeOrRefuse } from '../../write-or-refuse.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { plainArray } from '../arrays.js';
import { isAsynchronous, messageColumns, PARKED_COLUMNS, readMessage, readParked, type RowsAs } from '../columns.js';
import { SCHEDULED, WAITING } from '../../parked-state.js';
import { reparkArrays, type PostgresParked } from '../parked/parked.js';
import { parkArrays, placeArrays, type PostgresReady } from '../ready/ready.js';
import { eachWay, type RowsRead } from '../ready/rows-read.js';

/** Rows locked in a transaction that stays open while they are published. */
export class PostgresRowLocks implements RowLockStore {
  private readonly ready: Record<RowsAs, Statement>;
  private readonly due: Record<RowsAs, Statement>;
  private readonly turns: LockTurns;
  private readonly settling = new SettleOrRefuse();

  constructor(
    readonly connection: (transport: number) => SqlConnection,
    buckets: number,
    names: TableNames,
    readonly parts: { ready: PostgresReady; parked: PostgresParked; rowsRead: RowsRead },
  ) {
    this.ready = eachWay((as) => lockReady(names, as));
    this.due = eachWay((as) => lockDue(names, as));
    this.turns = new LockTurns(buckets);
  }

  async withLockedRows(
    request: Parameters<RowLockStore['withLockedRows']>[0],
    work: Parameters<RowLockStore['withLockedRows']>[1],
  ): Promise<LockedReport> {
    const connection = this.connection(request.transport);
    const turn = this.turns.next(request.transport);
    let published = false;
    const pass = (as: RowsAs): Promise<LockedReport> =>
      connection.transaction(async (tx, ended) => {
        const { messages, durable } = await this.lock(tx, request, turn, as);
        if (messages.length === 0) return { locked: 0, refused: [] };
        published = true;
        const outcome = await work(messages, durable, { ended, alive: () => tx.run(ALIVE.bind()) });
        return { locked: messages.length, refused: await this.write(tx, request, outcome) };
      });
    return this.parts.rowsRead.read(request.transport, pass, () => !published);
  }

  private async lock(
    tx: SqlExecutor,
    { transport, limit }: { transport: number; limit: number },
    { buckets, tables }: LockTurn,
    as: RowsAs,
  ): Promise<{ messages: OutboxMessage[]; durable: boolean }> {
    const messages: OutboxMessage[] = [];
    let durable = true;
    for (const table of tables) {
      const left = limit - messages.length;
      if (left === 0) break;
      const { rows } = await tx.run(this[table][as].bind(plainArray(buckets), transport, left, left));
      const read = table === 'due' ? readParked : readMessage;
      messages.push(...rows.map((row) => read(row, as)));
      if (rows.some(isAsynchronous)) durable = false;
    }
    return { messages, durable };
  }

  private async write(
    tx: SqlExecutor,
    { transport, onPublished }: { transport: number; onPublished: 'delete' | 'archive' },
    { published, parked, reparked }: LockedOutcome,
  ): Promise<LockedReport['refused']> {
    const { ready, parked: waiting } = this.parts;
    const fromReady = published.filter((message) => message.parkedId === null);
    const fromParked = published.filter((message) => message.parkedId !== null);
    const settle = onPublished === 'archive' ? ready.sql.archive : ready.sql.settle;
    const settleReady = (some: typeof published) => tx.run(settle.bind(...placeArrays(some), transport));
    const settleParked = (some: typeof published) =>
      tx.run(ready.parts.parkedSettle.settleSql(transport, some, onPublished));
    return [
      ...(await this.settling.write(tx, fromReady, onPublished, settleReady)),
      ...(await this.settling.write(tx, fromParked, onPublished, settleParked)),
      ...(await writeOrRefuse(tx, parked, (some) => tx.run(ready.sql.parkLocked.bind(...parkArrays(some), transport)))),
      ...(await writeOrRefuse(tx, reparked, (some) => tx.run(waiting.sql.reparkLocked.bind(...reparkArrays(some))))),
    ];
  }
}

const ALIVE = statement(undefined, 'select 1');

function lockReady({ ready }: TableNames, as: RowsAs): Statement {
  return statement(
    `outbox_lock_ready_${as}`,
    `select x.* from unnest(?::smallint[]) c(b) cross join lateral (select ${messageColumns(as, 'ready')} from ${ready} o
       where o.transport = ? and o.bucket = c.b order by o.seq limit ? for update skip locked) x limit ?`,
  );
}

function lockDue({ parked }: TableNames, as: RowsAs): Statement {
  return statement(
    `outbox_lock_due_${as}`,
    `select x.* from unnest(?::smallint[]) c(b) cross join lateral (select ${messageColumns(as, 'parked')}, ${PARKED_COLUMNS}
       from ${parked} o where o.transport = ? and o.bucket = c.b and o.due_at <= now() and o.state in (${SCHEDULED}, ${WAITING})
       order by o.due_at, o.seq limit ? for update skip locked) x limit ?`,
  );
}
