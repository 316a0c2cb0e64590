import { AHEAD_LIMIT, BUCKET_READY_LIMIT } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { InspectSql } from '../../sql/inspect.js';
import { select } from '../../sql/timed-selects.js';
import { plainArray } from '../arrays.js';
import { failuresSql, readFailures } from './failures.js';
import { lookupSql } from './lookup.js';
import { LEASE_COLUMNS, ROW_COLUMNS, utc } from './rows.js';
import { stripOf } from './strips.js';

export function inspectSql(names: TableNames, settings: StoreSettings): InspectSql {
  const { ready, parked, leases } = names;
  const isGlobal = settings.ordering === 'global';
  return {
    ...lookupSql(names),
    strip: (state, filter, where) => stripOf(state, filter, names, settings, where),
    lease: (transport, bucket) =>
      select(
        `select ${LEASE_COLUMNS}, ${utc('clock_timestamp()')} from (select 1) one
         left join ${leases} l on l.transport = ?::smallint and l.bucket = ?::smallint`,
        transport,
        bucket,
      ),
    blocker: ({ transport, bucket, key, seq, rowId }, before) =>
      select(
        `select ${ROW_COLUMNS.parked} from ${parked} o where o.transport = ?::smallint and o.bucket = ?::smallint
           ${isGlobal ? '' : 'and o.key = ?::text '}and o.blocking${before ? ' and (o.seq, o.parked_id) < (?::bigint, ?::bigint)' : ''}
         order by o.seq, o.parked_id limit 1`,
        ...[transport, bucket, ...(isGlobal ? [] : [key]), ...(before ? [seq, rowId] : [])],
      ),
    ahead: ({ transport, bucket, seq }) =>
      select(
        `select count(*) from (select from ${ready} o where o.transport = ?::smallint and o.bucket = ?::smallint
           and o.seq < ?::bigint limit ${AHEAD_LIMIT}) s`,
        ...[transport, bucket, seq],
      ),
    openTransactions: select(
      'select count(*) from pg_catalog.pg_stat_activity where backend_xid is not null and datname = current_database()',
    ),
    ...bucketSql(names),
    failures: (request, _transports, places) => failuresSql(names, request, places),
    readFailures,
  };
}

type BucketSql = Pick<InspectSql, 'leasesOf' | 'counted' | 'firstUpTo' | 'countUpTo'>;

function bucketSql({ ready, leases }: TableNames): BucketSql {
  const here = `from ${ready} o where o.transport = ?::smallint and o.bucket = b.n`;
  const buckets = 'unnest(?::smallint[]) b(n)';
  return {
    leasesOf: (transport) =>
      select(`select l.bucket, ${LEASE_COLUMNS} from ${leases} l where l.transport = ?::smallint`, transport),
    counted: (transport, some) =>
      select(
        `select b.n, c.ready, ${utc('f.created_at')} from ${buckets}
         cross join lateral (select count(*) ready from (select ${here} limit ${BUCKET_READY_LIMIT}) s) c
         left join lateral (select o.created_at ${here} order by o.seq limit 1) f on true`,
        ...[plainArray(some), transport, transport],
      ),
    firstUpTo: (transport, some, highest) =>
      select(
        `select b.n, f.seq from ${buckets}
         cross join lateral (select o.seq ${here} and o.seq <= ?::bigint order by o.seq limit 1) f`,
        ...[plainArray(some), transport, highest],
      ),
    countUpTo: (transport, some, highest) =>
      select(
        `select b.n, c.ready from ${buckets} cross join lateral (select count(*) ready
           from (select ${here} and o.seq <= ?::bigint limit ${BUCKET_READY_LIMIT}) s) c`,
        ...[plainArray(some), transport, highest],
      ),
  };
}
