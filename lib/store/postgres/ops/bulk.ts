import type { ParkedState } from '../../../outbox-message.js';
import { systemClock } from '../../../time/clock.js';
import type { Change } from '../../admin-store.js';
import {
  unlessEnded,
  BULK_LOOK,
  BULK_TIMEOUT,
  type AuditRow,
  type Bounds,
  type BulkPage,
  type BulkRequest,
  type BulkRow,
  type BulkStore,
  type NewAction,
  type AuditOutcome,
} from '../../bulk-store.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import { ERROR_LENGTH, type RowsById, type StoredRow } from '../../inspect-store.js';
import type { TableNames } from '../../names.js';
import type { Sql, Statement } from '../../sql.js';
import { plainArray } from '../arrays.js';
import { DEAD, SCHEDULED, stateNumber } from '../../parked-state.js';
import type { PostgresLookup } from '../inspect/lookup.js';
import { filterSql } from '../inspect/pages.js';
import { readDate, utc } from '../inspect/rows.js';
import { TimedReads } from '../inspect/timed-reads.js';
import { inTransaction } from '../../retry.js';
import { statement } from '../statement.js';
import type { PostgresAdmin } from './admin.js';
import type { AuditTable } from '../../sql/audit.js';

/** What operators do to many rows. It changes what {@link PostgresAdmin} changes, in the same way. */
export class PostgresBulk implements BulkStore {
  /** @internal */ readonly reads: TimedReads;
  /** @internal */ readonly boundsSql: Statement;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly admin: PostgresAdmin,
    readonly audits: AuditTable,
    /** @internal */ readonly lookup: Pick<PostgresLookup, 'locate'>,
  ) {
    this.reads = new TimedReads(connection);
    this.boundsSql = statement(
      undefined,
      `select (select min(parked_id) from ${names.parked}), (select max(parked_id) from ${names.parked}), ${utc('clock_timestamp()')}`,
    );
  }

  async bounds(): Promise<Bounds> {
    const [[from, upTo, at] = []] = (await this.reads.inTime(deadline(), this.boundsSql.bind())).rows;
    const now = new Date((readDate(at)?.getTime() ?? -1) + 1);
    return { from: from as string | null, upTo: upTo as string | null, at: at as string, now };
  }

  async find(request: BulkRequest): Promise<BulkPage> {
    if (request.bounds.upTo === null) return { rows: [], next: null };
    const { rows } = await this.reads.inTime(deadline(), this.findSql(request));
    const found = rows.filter(([, , rowId]) => rowId !== null).map(readBulkRow);
    const [last, looked] = rows[0] ?? [];
    if (found.length >= request.limit) return { rows: found, next: found.at(-1)?.rowId ?? null };
    return { rows: found, next: Number(looked) < BULK_LOOK ? null : (last as string) };
  }

  locate(ids: readonly string[], bucket?: number): Promise<RowsById> {
    return this.lookup.locate(ids, bucket);
  }

  /** @internal First a bounded piece of the key, then what of it the filter means. By ids all of them are looked at. */
  findSql({ filter, bounds, after, backwards, limit, withErrors }: BulkRequest): Sql {
    const { ids, states, scheduledUpTo } = filter;
    const { text, values } = filterSql(filter);
    const range = backwards ? [bounds.from, after, bounds.upTo] : [after, bounds.from, bounds.upTo];
    const order = `o.parked_id${backwards ? ' desc' : ''}`;
    const behind = backwards
      ? 'o.parked_id >= ?::bigint and o.parked_id < coalesce(?::bigint, 9223372036854775807) and o.parked_id <= ?::bigint'
      : 'o.parked_id > coalesce(?::bigint, -9223372036854775808) and o.parked_id >= ?::bigint and o.parked_id <= ?::bigint';
    const error = withErrors ? `coalesce(substring(o.last_error from 1 for ${ERROR_LENGTH}), '')` : `''`;
    const due = scheduledUpTo === undefined ? '' : ` and (o.state <> ${SCHEDULED} or o.due_at <= ?::timestamptz)`;
    const ofDue = scheduledUpTo === undefined ? [] : [scheduledUpTo];
    const numbers = plainArray(states.map((state) => String(stateNumber(state))));
    return statement(
      undefined,
      `with looked as materialized (select o.parked_id, o.id, o.transport, o.bucket, o.seq, ${error} as error,
           o.state = any(?::smallint[]) and (o.state <> ${DEAD} or o.died_at is null or o.died_at <= ?::timestamptz)${due}${text} as meant
         from ${this.names.parked} o where ${ids === undefined ? '' : 'o.id = any(?::uuid[]) and '}${behind} order by ${order} limit ${BULK_LOOK})
       select l.last, l.looked, o.parked_id, o.id, o.transport, o.bucket, o.seq, o.error
       from (select ${backwards ? 'min' : 'max'}(parked_id) as last, count(*) as looked from looked) l
       left join (select * from looked o where o.meant order by ${order} limit ?) o on true order by ${order}`,
    ).bind(numbers, bounds.at, ...ofDue, ...values, ...(ids === undefined ? [] : [plainArray(ids)]), ...range, limit);
  }

  begin(action: NewAction): Promise<string> {
    return this.audits.begin(action);
  }

  change(
    audit: string,
    change: Change,
    states: readonly ParkedState[],
    rows: readonly BulkRow[],
  ): Promise<string[] | undefined> {
    const found = rows.map(({ rowId, transport, bucket }) => [rowId, String(transport), String(bucket)]);
    return this.counted(audit, rows, (tx) => this.admin.changeIn(tx, change, states, found));
  }

  cancelReady(audit: string, rows: readonly StoredRow[]): Promise<string[] | undefined> {
    const found = rows.map(({ transport, bucket, seq }) => [String(transport), String(bucket), seq]);
    return this.counted(audit, rows, (tx) => this.admin.unowned.removeIn(tx, found));
  }

  release(audit: string, filter: { key: string; transport?: number }): Promise<number | undefined> {
    const work = inTransaction(this.connection(), async (tx) => {
      const released = await this.admin.releaseIn(tx, filter);
      await this.audits.count(tx, audit, released, 0);
      return released;
    });
    return unlessEnded(work);
  }

  end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return this.audits.end(audit, outcome, error);
  }
  audit(before: string | null, limit: number): Promise<AuditRow[]> {
    return this.audits.list(before, limit);
  }

  /** @internal A change, and its count in the same transaction. */
  counted(
    audit: string,
    asked: readonly unknown[],
    change: (tx: SqlExecutor) => Promise<string[]>,
  ): Promise<string[] | undefined> {
    const work = inTransaction(this.connection(), async (tx) => {
      const ids = await change(tx);
      await this.audits.count(tx, audit, ids.length, Math.max(0, asked.length - ids.length));
      return ids;
    });
    return unlessEnded(work);
  }
}

const deadline = (): number => systemClock.monotonic() + BULK_TIMEOUT;

function readBulkRow([, , rowId, id, transport, bucket, seq, error]: readonly unknown[]): BulkRow {
  return {
    rowId: rowId as string,
    id: id as string,
    transport: Number(transport),
    bucket: Number(bucket),
    seq: seq as string,
    error: error as string,
  };
}
