import type { SqlDatabase, SqlExecutor } from '../executors/executor.js';
import type { MessageFilter, OperatorReport } from '../outbox-store.js';
import type { StoreSettings, TableNames } from '../schema/names.js';
import { statement, type Sql } from '../sql.js';
import { BLOCKED, DEAD, readKey, SCHEDULED, WAITING } from './columns.js';
import { jsonRows, PARKED_IDS } from './json-rows.js';
import { inTransaction, retried } from './retry.js';
import { marks, times } from './statements.js';
import type { KeyOfTransport, MysqlWake } from './wake.js';

/** Ids per transaction: locks stay short whatever the filter's limit is. */
const PER_TRANSACTION = 500;
/** A message can move from ready to parked between two looks; after that it stays. */
const LOOKS = 3;

type Action = 'requeue' | 'discard' | 'cancel';
const STATES: Readonly<Record<Action, readonly number[]>> = {
  requeue: [DEAD, WAITING, BLOCKED],
  discard: [DEAD, WAITING, BLOCKED],
  cancel: [SCHEDULED, WAITING, BLOCKED, DEAD],
};
interface Candidate extends KeyOfTransport {
  readonly parkedId: string;
  readonly id: string;
  readonly state: number;
  readonly blocking: boolean;
  readonly epoch: string | null;
}

/** What operators may do: only with parked rows, and never with one that is being sent. */
export class MysqlAdmin {
  /** @internal */ readonly sql: ReturnType<typeof adminStatements>;

  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly wake: MysqlWake,
  ) {
    this.sql = adminStatements(names, settings.ordering === 'none' ? 0 : 1);
  }

  async apply(action: Action, filter: MessageFilter): Promise<OperatorReport> {
    const done = new Set<string>();
    const untouched = new Set<string>(); // being sent, or in a state that the action does not change
    let missing = new Set(filter.ids ?? []);
    const tooLate = new Set<string>();
    for (let look = 1; look <= LOOKS; look++) {
      const seen = await this.applyOnce(action, filter, done, untouched);
      missing = new Set([...missing].filter((id) => !seen.has(id)));
      if (missing.size === 0 || look === LOOKS) break;
      // First ready, then parked again: rows move only in this direction, so none slips through between the looks.
      for (const id of await this.inReady([...missing], filter.transport)) {
        tooLate.add(id);
        missing.delete(id);
      }
      if (missing.size === 0 || !(await this.anyParked([...missing], filter.transport))) break;
    }
    if (filter.ids !== undefined) for (const id of untouched) if (!done.has(id)) tooLate.add(id);
    return { done: [...done], tooLate: [...tooLate], notFound: [...missing] };
  }

  async release({ key, transport }: { key: string; transport?: number }): Promise<{ released: number }> {
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const bytes = Buffer.from(key, 'utf8');
      const dead = await tx.run(this.releaseSql(transport, bytes));
      const keys = dead.rows.map(([of, bucket]) => ({ transport: Number(of), bucket: Number(bucket), key }));
      if (keys.length === 0) return { released: 0 };
      const released = (await tx.run(this.sql.unblock.bind(idRows(dead.rows.map(([, , id]) => String(id)))))).affected;
      await this.wake.wake(tx, unique(keys));
      return { released };
    });
  }

  /** @internal Ids that were found in the parked table, whatever became of them. */
  async applyOnce(action: Action, filter: MessageFilter, done: Set<string>, untouched: Set<string>): Promise<Set<string>> {
    const admin = this.database.connection('admin');
    const found = (await admin.run(this.candidates(action, filter))).rows.map(([parkedId, id]) => [String(parkedId), String(id)] as const);
    for (let from = 0; from < found.length; from += PER_TRANSACTION) {
      const some = found.slice(from, from + PER_TRANSACTION).map(([parkedId]) => parkedId);
      const report = await inTransaction(admin, (tx) => this.change(tx, action, some));
      report.done.forEach((id) => done.add(id));
      report.untouched.forEach((id) => untouched.add(id));
    }
    return new Set(found.map(([, id]) => id));
  }

  /**
   * @internal The lease rows first, then the rows: while they are locked nobody takes the buckets over, so that the
   * epoch that we compare with is the one in which a row can be sent; a `take` of the owner waits for the row.
   */
  async change(tx: SqlExecutor, action: Action, parkedIds: readonly string[]): Promise<{ done: string[]; untouched: string[] }> {
    const ids = idRows(parkedIds);
    const epochs = new Map<string, string>();
    for (const [transport, bucket, epoch, lasts] of (await tx.run(this.sql.lockLeases.bind(ids))).rows) {
      if (Number(lasts) === 1) epochs.set(`${String(transport)} ${String(bucket)}`, String(epoch));
    }
    const rows = (await tx.run(this.sql.lockRows.bind(ids))).rows.map(readCandidate);
    const isSent = (row: Candidate): boolean => row.epoch !== null && epochs.get(`${row.transport} ${row.bucket}`) === row.epoch;
    const mayChange = (row: Candidate): boolean => !isSent(row) && STATES[action].includes(row.state);
    const ours = rows.filter(mayChange);
    if (ours.length > 0) {
      const list = idRows(ours.map(({ parkedId }) => parkedId));
      await tx.run(action === 'requeue' ? this.sql.requeue.bind(list) : this.sql.remove.bind(list));
      if (action !== 'requeue') await this.wake.wake(tx, unique(ours.filter(({ blocking }) => blocking)));
    }
    return { done: ours.map(({ id }) => id), untouched: rows.filter((row) => !mayChange(row)).map(({ id }) => id) };
  }

  /** @internal */ candidates(action: Action, filter: MessageFilter): Sql {
    const { conditions, values } = this.conditions(filter);
    // Rows that the action leaves alone are found too when they are named: they are not "not found".
    const states = filter.ids === undefined ? [`state in (${STATES[action].join(', ')})`] : [];
    const where = [...conditions, ...states].join(' and ');
    const text = `select parked_id, id from ${this.names.parked} where ${where} order by parked_id limit ?`;
    return statement(undefined, text).bind(...values, Math.max(0, filter.limit));
  }

  /** @internal */ conditions({ ids, transport, key, topic, type }: MessageFilter): { conditions: string[]; values: unknown[] } {
    const conditions = ['1 = 1'];
    const values: unknown[] = [];
    const add = (condition: string, ...more: unknown[]): void => {
      conditions.push(condition);
      values.push(...more);
    };
    if (ids !== undefined) add(ids.length === 0 ? '1 = 0' : `id in (${marks(ids.length)})`, ...ids);
    if (transport !== undefined) add('transport = ?', transport);
    else if (key !== undefined) add(`transport in (select id from ${this.names.transports})`);
    if (key !== undefined) {
      const bytes = Buffer.from(key, 'utf8');
      const buckets = Array.from({ length: this.settings.buckets }, (_, bucket) => bucket);
      add(`bucket in (${buckets.join(', ')}) and blocking in (0, 1) and \`key\` = ?`, bytes);
    }
    // As bytes: text would ignore trailing spaces.
    if (topic !== undefined) add('cast(topic as binary) = ?', Buffer.from(topic, 'utf8'));
    if (type !== undefined) add('cast(type as binary) = ?', Buffer.from(type, 'utf8'));
    return { conditions, values };
  }

  /** @internal */ releaseSql(transport: number | undefined, key: Buffer): Sql {
    const { conditions, values } = this.conditions({ key: key.toString('utf8'), limit: 0, ...(transport === undefined ? {} : { transport }) });
    const where = conditions.join(' and ').replace('blocking in (0, 1)', 'blocking = 1');
    return statement(
      undefined,
      `select transport, bucket, parked_id from ${this.names.parked} where ${where} and state = ${DEAD} for update`,
    ).bind(...values);
  }

  /** @internal The hot table has no key on the id: this reads all of it, for the few ids that were found nowhere else. */
  async inReady(ids: readonly string[], transport: number | undefined): Promise<string[]> {
    const found: string[] = [];
    for (let from = 0; from < ids.length; from += PER_TRANSACTION) {
      const some = ids.slice(from, from + PER_TRANSACTION);
      const text = `select distinct id from ${this.names.ready} where id in (${times(some.length, '?', ', ')})${transport === undefined ? '' : ' and transport = ?'}`;
      const sql = statement(undefined, text).bind(...some, ...(transport === undefined ? [] : [transport]));
      found.push(...(await retried(() => this.database.connection('admin').run(sql))).rows.map(([id]) => String(id)));
    }
    return found;
  }

  /** @internal */ async anyParked(ids: readonly string[], transport: number | undefined): Promise<boolean> {
    const text = `select 1 from ${this.names.parked} where id in (${marks(ids.length)})${transport === undefined ? '' : ' and transport = ?'} limit 1`;
    const sql = statement(undefined, text).bind(...ids, ...(transport === undefined ? [] : [transport]));
    return (await this.database.connection('admin').run(sql)).rows.length > 0;
  }
}

function adminStatements({ parked, leases }: TableNames, ordered: 0 | 1) {
  const byId = `${PARKED_IDS} straight_join ${parked} p on p.parked_id = k.p`;
  return {
    lockLeases: statement('lock leases', `select l.transport, l.bucket, l.epoch, l.expires_at > utc_timestamp(6)
      from ${leases} l where (l.transport, l.bucket) in (select p.transport, p.bucket from ${byId})
      order by l.transport, l.bucket lock in share mode`),
    lockRows: statement('lock rows', `select p.parked_id, p.id, p.transport, p.bucket, p.\`key\`, p.state, p.blocking, p.sending_epoch
      from ${byId} for update`),
    requeue: statement('requeue', `update ${byId} set p.state = ${WAITING}, p.attempts = 0, p.due_at = utc_timestamp(6),
      p.blocking = if(p.\`key\` is null, 0, ${ordered}), p.sending_epoch = null, p.died_at = null, p.announced = 0`),
    remove: statement('remove parked', `delete p from ${byId}`),
    unblock: statement('unblock', `update ${byId} set p.blocking = 0 where p.state = ${DEAD}`),
  };
}

const idRows = (ids: readonly string[]): string => jsonRows(ids.map((id) => [BigInt(id)]));

function readCandidate(row: readonly unknown[]): Candidate {
  const [parkedId, id, transport, bucket, key, state, blocking, epoch] = row;
  return {
    parkedId: String(parkedId),
    id: String(id),
    transport: Number(transport),
    bucket: Number(bucket),
    key: readKey(key) ?? '',
    state: Number(state),
    blocking: Number(blocking) === 1,
    epoch: epoch === null ? null : String(epoch),
  };
}

function unique(keys: readonly KeyOfTransport[]): KeyOfTransport[] {
  return [...new Map(keys.map((key) => [`${key.transport} ${key.bucket} ${key.key}`, key])).values()];
}
