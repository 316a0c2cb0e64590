import type { OutboxMessage } from '../../message.js';
import type { SqlConnection, SqlExecutor } from '../executors/executor.js';
import type { LockedOutcome, RowLockStore } from '../parked-store.js';
import type { TableNames } from '../schema/names.js';
import { statement, type Statement } from '../sql.js';
import { plainArray } from './arrays.js';
import {
  isAsynchronous,
  messageColumns,
  PARKED_COLUMNS,
  readMessage,
  readParked,
  SCHEDULED,
  WAITING,
  type RowsAs,
} from './columns.js';
import { reparkArrays, type PostgresParked } from './parked.js';
import { parkArrays, placeArrays, type PostgresReady } from './ready.js';
import { eachWay, type RowsRead } from './rows-read.js';

/** Rows locked in a transaction that stays open while they are published; the next start moves on through the buckets. */
export class PostgresRowLocks implements RowLockStore {
  /** @internal */ readonly ready: Record<RowsAs, Statement>;
  /** @internal */ readonly due: Record<RowsAs, Statement>;
  /** @internal */ start = 0;

  constructor(
    readonly connection: (transport: number) => SqlConnection,
    readonly buckets: number,
    names: TableNames,
    inUtcSession: boolean,
    readonly parts: { ready: PostgresReady; parked: PostgresParked; rowsRead: RowsRead },
  ) {
    this.ready = eachWay((as) => lockReady(names, as, inUtcSession));
    this.due = eachWay((as) => lockDue(names, as, inUtcSession));
  }

  async withLockedRows(
    request: Parameters<RowLockStore['withLockedRows']>[0],
    work: Parameters<RowLockStore['withLockedRows']>[1],
  ): Promise<number> {
    const connection = this.connection(request.transport);
    this.start = (this.start + 1) % this.buckets;
    let published = false;
    const pass = (as: RowsAs): Promise<number> =>
      connection.transaction(async (tx) => {
        const { messages, durable } = await this.lock(tx, request, as);
        if (messages.length === 0) return 0;
        published = true;
        await this.write(tx, request, await work(messages, durable, () => tx.run(ALIVE.bind())));
        return messages.length;
      });
    return this.parts.rowsRead.read(request.transport, pass, () => !published);
  }

  /** @internal */ async lock(
    tx: SqlExecutor,
    { transport, limit }: { transport: number; limit: number },
    as: RowsAs,
  ): Promise<{ messages: OutboxMessage[]; durable: boolean }> {
    const order = Array.from({ length: this.buckets }, (_, i) => (this.start + i) % this.buckets);
    const values = [plainArray(order), transport, limit, limit] as const;
    const due = (await tx.run(this.due[as].bind(...values))).rows;
    const left = limit - due.length;
    const ready = left > 0 ? (await tx.run(this.ready[as].bind(plainArray(order), transport, left, left))).rows : [];
    const messages = [...due.map((row) => readParked(row, as)), ...ready.map((row) => readMessage(row, as))];
    return { messages, durable: ![...due, ...ready].some(isAsynchronous) };
  }

  /** @internal */ async write(
    tx: SqlExecutor,
    { transport, onPublished }: { transport: number; onPublished: 'delete' | 'archive' },
    { published, parked, reparked }: LockedOutcome,
  ): Promise<void> {
    const { ready, parked: waiting } = this.parts;
    const fromReady = published.filter((message) => message.parkedId === null);
    const fromParked = published.filter((message) => message.parkedId !== null);
    const settle = onPublished === 'archive' ? ready.sql.archive : ready.sql.settle;
    if (fromReady.length > 0) await tx.run(settle.bind(...placeArrays(fromReady), transport));
    if (fromParked.length > 0) await tx.run(ready.parkedSettle.settleSql(transport, fromParked, onPublished));
    if (parked.length > 0) await tx.run(ready.sql.parkLocked.bind(...parkArrays(parked), transport));
    if (reparked.length > 0) await tx.run(waiting.sql.reparkLocked.bind(...reparkArrays(reparked)));
  }
}

const ALIVE = statement(undefined, 'select 1');

function lockReady({ ready }: TableNames, as: RowsAs, inUtc: boolean): Statement {
  return statement(
    `outbox_lock_ready_${as}`,
    `select x.* from unnest(?::smallint[]) c(b) cross join lateral (select ${messageColumns(as, inUtc)} from ${ready} o
       where o.transport = ? and o.bucket = c.b order by o.seq limit ? for update skip locked) x limit ?`,
  );
}

function lockDue({ parked }: TableNames, as: RowsAs, inUtc: boolean): Statement {
  return statement(
    `outbox_lock_due_${as}`,
    `select x.* from unnest(?::smallint[]) c(b) cross join lateral (select ${messageColumns(as, inUtc)}, ${PARKED_COLUMNS}
       from ${parked} o where o.transport = ? and o.bucket = c.b and o.due_at <= now() and o.state in (${SCHEDULED}, ${WAITING})
       order by o.due_at, o.seq limit ? for update skip locked) x limit ?`,
  );
}
