import { OFTEN, OFTEN_LOOK_LIMIT } from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import type { ParkedSql, ReadySql, StatsSql } from '../../sql/stats.js';
import { select } from '../../sql/timed-selects.js';
import { isReadOnly, READ_ONLY } from '../schema/server.js';
import { times } from '../statements.js';

const NOW = 'utc_timestamp(6)';
const MILLISECONDS = (from: string, to: string): string => `timestampdiff(microsecond, ${from}, ${to}) / 1000`;

export function statsSql(names: TableNames, settings: StoreSettings): StatsSql {
  const { transports, leases } = names;
  return {
    transports: select(
      `select t.id, convert(t.name using utf8mb4), coalesce(sum(l.owner is not null and l.expires_at > ${NOW}), 0), count(l.bucket)
      from ${transports} t left join ${leases} l on l.transport = t.id and l.bucket < ${settings.buckets} group by t.id, t.name order by t.id`,
    ),
    ...parkedSql(names, settings),
    ...readySql(names),
  };
}

function parkedSql({ parked }: TableNames, { buckets }: StoreSettings): ParkedSql {
  const counted = (state: number): string =>
    `(select count(*) from (select 1 from ${parked} force index (by_state) where transport = ? and state = ${state} limit ?) c)`;
  const keys = `(select bucket, \`key\` from ${parked} force index (by_key)
    where transport = ? and bucket = ? and blocking = 1 limit ?)`;
  const some = (state: number): string =>
    `(select topic from ${parked} force index (by_state) where transport = ? and state = ${state} limit ?)`;
  return {
    counts: (transport, limit, ofBucket) =>
      select(
        `select c.scheduled, c.waiting, c.blocked, c.dead, k.n, f.often, f.most, 0,
          c.scheduled >= ?, c.waiting >= ?, c.blocked >= ?, c.dead >= ?, k.most >= ?, ${READ_ONLY}
        from (select ${counted(SCHEDULED)} scheduled, ${counted(WAITING)} waiting, ${counted(BLOCKED)} blocked, ${counted(DEAD)} dead) c
        join (select coalesce(sum(e.n), 0) n, coalesce(max(e.looked), 0) most
          from (select count(distinct b.\`key\`) + max(b.\`key\` is null) n, count(*) looked
            from (${times(buckets, keys, ' union all ')}) b group by b.bucket) e) k
        join (select count(*) often, coalesce(max(attempts), 0) most from (select attempts from ${parked} force index (by_state)
          where transport = ? and state = ${WAITING} limit ?) w where attempts >= ${OFTEN}) f`,
        ...[limit, limit, limit, limit, ofBucket],
        ...[transport, limit, transport, limit, transport, limit, transport, limit],
        ...Array.from({ length: buckets }, (_, bucket) => [transport, bucket, ofBucket]).flat(),
        ...[transport, Math.min(limit, OFTEN_LOOK_LIMIT)],
      ),
    isReadOnly,
    topics: (transport, limit) =>
      select(
        `select convert(topic using utf8mb4), count(*) from (select cast(topic as binary) topic from (${some(WAITING)} union all ${some(BLOCKED)}) a) s
        group by topic`,
        ...[transport, limit, transport, limit],
      ),
  };
}

function readySql({ ready, leases, instances }: TableNames): ReadySql {
  const place = `from ${ready} force index (primary) where transport = ? and bucket = ? and seq > ? order by seq limit`;
  const head = `(select bucket, seq, id, created_at, (select count(*) from (select 1 ${place} ?) c) waiting ${place} 1)`;
  return {
    ready: (transport, limit) =>
      select(`select count(*) from (select 1 from ${ready} where transport = ? limit ?) r`, transport, limit),
    heads: (transport, places, most) =>
      select(
        `select f.bucket, f.seq, f.id, ${MILLISECONDS('f.created_at', NOW)}, f.waiting, l.owner, ${MILLISECONDS(NOW, 'l.expires_at')},
          exists (select 1 from ${instances} i where i.owner = l.owner and i.expires_at > ${NOW})
        from (${times(places.length, head, ' union all ')}) f
        left join ${leases} l on l.transport = ? and l.bucket = f.bucket and l.owner is not null and l.expires_at > ${NOW}`,
        ...places.flatMap(([bucket, after]) => {
          const from = [transport, bucket, BigInt(after)];
          return [...from, most, ...from];
        }),
        transport,
      ),
  };
}
