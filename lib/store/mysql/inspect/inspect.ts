import { keyBytes } from '../../../message/key-bytes.js';
import { AHEAD_LIMIT, BUCKET_READY_LIMIT } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { InspectSql } from '../../sql/inspect.js';
import { select } from '../../sql/timed-selects.js';
import { times } from '../statements.js';
import { failuresSql, readFailures } from './failures.js';
import { lookupSql } from './lookup.js';
import { LEASE_COLUMNS, ROW_COLUMNS } from './rows.js';
import { stripOf } from './strips.js';

export function inspectSql(names: TableNames, settings: StoreSettings): InspectSql {
  const { ready, parked, leases } = names;
  const isGlobal = settings.ordering === 'global';
  const place = `from ${ready} force index (primary) where transport = ? and bucket = ?`;
  return {
    ...lookupSql(names),
    strip: (request, where) => stripOf(request, names, where),
    bounds: select(
      `select (select min(parked_id) from ${parked}), (select max(parked_id) from ${parked}), utc_timestamp(6)`,
    ),
    lease: (transport, bucket) =>
      select(
        `select ${LEASE_COLUMNS}, utc_timestamp(6) from (select 1 as one) o left join ${leases} l on l.transport = ? and l.bucket = ?`,
        transport,
        bucket,
      ),
    blocker: ({ transport, bucket, key, seq, rowId }, before) =>
      select(
        `select ${ROW_COLUMNS.parked} from ${parked} force index (by_key) where transport = ? and bucket = ? and blocking = 1
        ${isGlobal ? '' : 'and `key` = ? '}${before ? 'and (seq < ? or (seq = ? and parked_id < ?)) ' : ''}order by seq, parked_id limit 1`,
        ...[transport, bucket, ...(isGlobal ? [] : [keyBytes(key as string)])],
        ...(before ? [BigInt(seq), BigInt(seq), BigInt(rowId ?? '0')] : []),
      ),
    ahead: ({ transport, bucket, seq }) =>
      select(
        `select count(*) from (select 1 ${place} and seq < ? limit ${AHEAD_LIMIT}) a`,
        ...[transport, bucket, BigInt(seq)],
      ),
    ...bucketSql(names),
    failures: (request, transports) => failuresSql(parked, request, transports),
    readFailures,
  };
}

type BucketSql = Pick<InspectSql, 'leasesOf' | 'counted'>;

function bucketSql({ ready, leases }: TableNames): BucketSql {
  const place = `from ${ready} force index (primary) where transport = ? and bucket = ?`;
  // By equality alone: with a bound of `seq` MySQL may read all of the table, where its statistics are those of an empty one.
  const each = `(select ? as bucket, (select count(*) from (select seq ${place} order by seq limit ${BUCKET_READY_LIMIT}) c where c.seq <= ?) as ready,
    (select seq ${place} order by seq limit 1) as first, (select created_at ${place} order by seq limit 1) as oldest)`;
  return {
    leasesOf: (transport) =>
      select(`select l.bucket, ${LEASE_COLUMNS} from ${leases} l where l.transport = ?`, transport),
    counted: (transport, buckets, upTo = HIGHEST) =>
      select(
        `select * from (${times(buckets.length, each, ' union all ')}) b`,
        ...buckets.flatMap((bucket) => [bucket, transport, bucket, BigInt(upTo), transport, bucket, transport, bucket]),
      ),
  };
}
const HIGHEST = String(2n ** 64n - 1n);
