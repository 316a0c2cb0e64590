import { systemClock } from '../../../time/clock.js';
import { BULK_LOOK, BULK_TIMEOUT, unlessEnded } from '../../bulk-store.js';
import type { PurgePage, PurgeRequest, PurgeRow, PurgeStore } from '../../edit/purge-store.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { readPosition, writePosition } from '../../position.js';
import type { Sql } from '../../sql.js';
import { plainArray, textArray } from '../arrays.js';
import { filterSql } from '../inspect/pages.js';
import { readDate, utc } from '../inspect/rows.js';
import { TimedReads } from '../inspect/timed-reads.js';
import { inTransaction } from '../../retry.js';
import { statement } from '../statement.js';
import type { AuditTable } from '../../sql/audit.js';

/** The key of the archive: when, transport, bucket, number. */
const KEY = 'o.published_at, o.transport, o.bucket, o.seq';
const SHAPE = ['time', 'number', 'number', 'number'] as const;

/** What an operator deletes for good: what was published, and what messages were before their edits. */
export class PostgresPurge implements PurgeStore {
  /** @internal */ readonly reads: TimedReads;
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly audits: AuditTable,
  ) {
    this.reads = new TimedReads(connection);
    this.sql = statements(names);
  }

  async archived(request: PurgeRequest): Promise<PurgePage> {
    const { rows } = await this.reads.inTime(systemClock.monotonic() + BULK_TIMEOUT, this.archivedSql(request));
    const found = rows.filter((row) => row[5] !== null).map((row) => row.slice(5, 9).map(String));
    const looked = Number(rows[0]?.[4] ?? 0);
    const last = found.length >= request.limit ? found.at(-1) : rows[0]?.slice(0, 4).map(String);
    const isLast = found.length < request.limit && looked < BULK_LOOK;
    const next = isLast || last === undefined ? null : writePosition(last);
    return { rows: found, next, at: readDate(last?.[0] ?? null) };
  }

  remove(audit: string, rows: readonly PurgeRow[]): Promise<number | undefined> {
    const [times, transports, buckets, seqs] = [0, 1, 2, 3].map((n) => rows.map((row) => row[n] as string));
    const remove = this.sql.remove.bind(
      textArray(times as string[]),
      ...[transports, buckets, seqs].map((column) => plainArray(column as string[])),
    );
    return this.counted(audit, rows.length, async (tx) => (await tx.run(remove)).affected);
  }

  forget(audit: string, edits: readonly string[]): Promise<number | undefined> {
    const forget = this.sql.forget.bind(plainArray(edits));
    return this.counted(audit, edits.length, async (tx) => (await tx.run(forget)).affected);
  }

  /** @internal A bounded piece of the archive, then what of it is meant. Where it ends stands in each row. */
  archivedSql({ ids, until, after, limit, ...filter }: PurgeRequest): Sql {
    const { text, values } = filterSql(filter);
    const ofIds = ids === undefined ? '' : ' and o.id = any(?::uuid[])';
    const behind = after === null ? undefined : readPosition(after, [...SHAPE]);
    const more = behind === undefined ? '' : ` and (${KEY}) > (?::timestamptz, ?::smallint, ?::smallint, ?::bigint)`;
    return statement(
      undefined,
      `with looked as materialized (
           select o.published_at, o.transport, o.bucket, o.seq, ${utc('o.published_at')} as at, (true${text}${ofIds}) as meant
           from ${this.names.archive} o where o.published_at <= ?::timestamptz${more} order by ${KEY} limit ${BULK_LOOK}),
         last as (select o.* from looked o order by o.published_at desc, o.transport desc, o.bucket desc, o.seq desc limit 1)
       select l.at, l.transport, l.bucket, l.seq, (select count(*) from looked), o.at, o.transport, o.bucket, o.seq
       from last l left join (select o.* from looked o where o.meant order by ${KEY} limit ?) o on true order by ${KEY}`,
    ).bind(...values, ...(ids === undefined ? [] : [plainArray(ids)]), until.toISOString(), ...(behind ?? []), limit);
  }

  /** @internal */ counted(
    audit: string,
    asked: number,
    change: (tx: SqlExecutor) => Promise<number>,
  ): Promise<number | undefined> {
    const work = inTransaction(this.connection(), async (tx) => {
      const done = await change(tx);
      await this.audits.count(tx, audit, done, Math.max(0, asked - done));
      return done;
    });
    return unlessEnded(work);
  }
}

function statements({ archive, audit }: TableNames) {
  return {
    /**
     * Past what the cleaner deletes just now. Row by row by the key, however the tables are planned. Each partition has places
     * of its own: the same one in another partition is of another row.
     */
    remove: statement(
      undefined,
      `with meant as materialized (select x.part, x.place
         from unnest(?::timestamptz[], ?::smallint[], ?::smallint[], ?::bigint[]) k(at, t, b, s)
         cross join lateral (select o.tableoid as part, o.ctid as place from ${archive} o where o.published_at = k.at
           and o.transport = k.t and o.bucket = k.b and o.seq = k.s for update skip locked) x)
       delete from ${archive} where ctid = any(array(select place from meant)) and (tableoid, ctid) in (select part, place from meant)`,
    ),
    forget: statement(
      undefined,
      `update ${audit} set kept = null, kept_payload = null where audit_id = any(?::bigint[]) and kept is not null`,
    ),
  };
}
