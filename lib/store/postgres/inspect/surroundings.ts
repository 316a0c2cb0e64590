import { AHEAD_LIMIT, BUCKET_READY_LIMIT } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { LEASE_COLUMNS, ROW_COLUMNS, utc } from './rows.js';

export function surroundingStatements(
  { ready, parked, leases }: TableNames,
  { ordering }: Pick<StoreSettings, 'ordering'>,
) {
  const ofKey = ordering === 'global' ? '' : ' and o.key = ?::text';
  const blocking = (more: string): Statement =>
    statement(
      undefined,
      `select ${ROW_COLUMNS.parked} from ${parked} o where o.transport = ?::smallint and o.bucket = ?::smallint${ofKey}
         and o.blocking${more} order by o.seq, o.parked_id limit 1`,
    );
  return {
    lease: statement(
      undefined,
      `select ${LEASE_COLUMNS}, ${utc('clock_timestamp()')} from (select 1) one
       left join ${leases} l on l.transport = ?::smallint and l.bucket = ?::smallint`,
    ),
    firstOfKey: blocking(''),
    beforeInKey: blocking(' and (o.seq, o.parked_id) < (?::bigint, ?::bigint)'),
    ahead: statement(
      undefined,
      `select count(*) from (select from ${ready} o where o.transport = ?::smallint and o.bucket = ?::smallint
         and o.seq < ?::bigint limit ${AHEAD_LIMIT}) s`,
    ),
    open: statement(
      undefined,
      'select count(*) from pg_catalog.pg_stat_activity where backend_xid is not null and datname = current_database()',
    ),
  };
}

export function bucketStatement(
  { transports, ready, leases }: TableNames,
  { buckets, ordering }: Pick<StoreSettings, 'buckets' | 'ordering'>,
): Statement {
  const last = ordering === 'global' ? 0 : buckets - 1;
  return statement(
    undefined,
    `select t.id, b.n, c.ready, ${utc('f.created_at')}, ${LEASE_COLUMNS} from ${transports} t
     cross join generate_series(0, ${last}) b(n)
     cross join lateral (select count(*) ready from (select from ${ready} o
       where o.transport = t.id and o.bucket = b.n limit ${BUCKET_READY_LIMIT}) s) c
     left join lateral (select o.created_at from ${ready} o where o.transport = t.id and o.bucket = b.n order by o.seq limit 1) f on true
     left join ${leases} l on l.transport = t.id and l.bucket = b.n
     where ?::smallint is null or t.id = ? order by t.id, b.n`,
  );
}

/** Where ready rows end, and in which buckets there are some up to a number: an index entry of each bucket, and a bounded count. */
export function restStatements(
  { transports, ready }: TableNames,
  { buckets, ordering }: Pick<StoreSettings, 'buckets' | 'ordering'>,
) {
  const last = ordering === 'global' ? 0 : buckets - 1;
  const places = `${transports} t cross join generate_series(0, ${last}) b(n)`;
  const here = `from ${ready} o where o.transport = t.id and o.bucket = b.n`;
  return {
    highest: statement(
      undefined,
      `select max(f.seq) from ${places} cross join lateral (select o.seq ${here} order by o.seq desc limit 1) f`,
    ),
    upTo: statement(
      undefined,
      `select t.id, b.n, f.seq, c.ready from ${places}
       cross join lateral (select o.seq ${here} and o.seq <= ?::bigint order by o.seq limit 1) f
       cross join lateral (select count(*) ready from (select ${here} and o.seq <= ?::bigint limit ${BUCKET_READY_LIMIT}) s) c
       where ?::smallint is null or t.id = ?`,
    ),
  };
}
