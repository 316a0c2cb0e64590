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
    strip: (request, where) => stripOf(request, names, settings, where),
    bounds: select(
      `select (select min(parked_id) from ${parked}), (select max(parked_id) from ${parked}), ${utc('clock_timestamp()')}`,
    ),
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
    ...bucketSql(names),
    failures: (request, _transports, places) => failuresSql(names, request, places),
    readFailures,
  };
}

type BucketSql = Pick<InspectSql, 'leasesOf' | 'counted'>;

function bucketSql({ ready, leases }: TableNames): BucketSql {
  const here = `from ${ready} o where o.transport = ?::smallint and o.bucket = b.n`;
  const buckets = 'unnest(?::smallint[]) b(n)';
  return {
    leasesOf: (transport) =>
      select(`select l.bucket, ${LEASE_COLUMNS} from ${leases} l where l.transport = ?::smallint`, transport),
    counted: (transport, some, upTo) => {
      const bounded = upTo === undefined ? here : `${here} and o.seq <= ?::bigint`;
      const values = upTo === undefined ? [transport] : [transport, upTo];
      return select(
        `select b.n, c.ready, f.seq, ${utc('f.created_at')} from ${buckets}
         cross join lateral (select count(*) ready from (select ${bounded} limit ${BUCKET_READY_LIMIT}) s) c
         left join lateral (select o.seq, o.created_at ${bounded} order by o.seq limit 1) f on true`,
        ...[plainArray(some), ...values, ...values],
      );
    },
  };
}
