import { OFTEN } from '../../admin-store.js';
import { literal, type StoreSettings, type TableNames } from '../../names.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import type { ParkedSql, ReadySql, StatsSql } from '../../sql/stats.js';
import type { Select } from '../../sql/timed-selects.js';
import { plainArray } from '../arrays.js';

const NOW = 'clock_timestamp()';
const MILLISECONDS = (interval: string): string =>
  `ceil(extract(epoch from ${interval}) operator(pg_catalog.*) 1000)::bigint`;
const byIndex = (text: string, ...values: readonly unknown[]): Select => ({ text, values, plan: 'by index' });

export function statsSql(names: TableNames, settings: StoreSettings): StatsSql {
  const { transports, leases } = names;
  return {
    transports: byIndex(
      `select t.id, t.name, count(*) filter (where l.owner is not null and l.expires_at > ${NOW}), count(l.bucket)
       from ${transports} t left join ${leases} l on l.transport = t.id and l.bucket < ${settings.buckets} group by t.id, t.name order by t.id`,
    ),
    ...parkedSql(names, settings),
    ...readySql(names),
  };
}

function parkedSql({ ready, parked }: TableNames, { buckets }: StoreSettings): ParkedSql {
  const hiding = `exists (select from (values (${literal(ready)}), (${literal(parked)})) n(name) where row_security_active(to_regclass(n.name)))`;
  // Rows that fall due, and those behind them: each found by its index.
  const some = (which: string): string =>
    `(select o.topic, o.state from ${parked} o where o.transport = ?::smallint and ${which} limit ?)`;
  return {
    counts: (transport, limit, ofBucket) =>
      byIndex(
        `select d.scheduled, d.waiting, b.blocked, x.dead, b.keys, d.often, d.most, ${hiding}, d.cut, d.cut, b.cut, x.cut, b.cut,
           pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on'
         from ${fallsDue(parked, buckets)} d
         cross join (select count(*) filter (where s.state = ${BLOCKED}) blocked, count(distinct (s.bucket, s.key)) keys, count(*) >= ? cut
           from (select o.state, o.bucket, o.key from ${parked} o where o.transport = ?::smallint and o.blocking limit ?) s) b
         cross join (select count(*) filter (where s.transport = ?::smallint) dead, count(*) >= ? cut
           from (select o.transport from ${parked} o where o.died_at is not null and o.state = ${DEAD}
             order by o.died_at desc limit ?) s) x`,
        ...[ofBucket, limit, transport, ofBucket, limit],
        ...[limit, transport, limit],
        ...[transport, limit, limit], // the last ones of all transports: no index has them by transport
      ),
    isReadOnly: ([readOnly]) => readOnly === 't',
    topics: (transport, limit) =>
      byIndex(
        `select s.topic, count(*) from (select w.topic from ${some('o.due_at is not null')} w where w.state = ${WAITING}
           union all select b.topic from ${some('o.blocking')} b where b.state = ${BLOCKED}) s group by s.topic`,
        ...[transport, limit, transport, limit],
      ),
  };
}

/** Of what falls due the first of each bucket: retries come before reminders for next month. */
const fallsDue = (parked: string, buckets: number): string =>
  `(select coalesce(sum(c.scheduled), 0) scheduled, coalesce(sum(c.waiting), 0) waiting, coalesce(sum(c.often), 0) often,
      coalesce(max(c.most), 0) most, coalesce(bool_or(c.read >= ?) or sum(c.read) >= ?, false) cut
    from (select count(*) filter (where s.state = ${SCHEDULED}) scheduled, count(*) filter (where s.state = ${WAITING}) waiting,
        count(*) filter (where s.state = ${WAITING} and s.attempts >= ${OFTEN}) often,
        max(s.attempts) filter (where s.state = ${WAITING} and s.attempts >= ${OFTEN}) most, count(*) read
      from (select g.bucket, o.state, o.attempts from generate_series(0, ${buckets - 1}) g(bucket)
        cross join lateral (select o.state, o.attempts from ${parked} o where o.transport = ?::smallint and o.bucket = g.bucket
          and o.due_at is not null order by o.due_at limit ?) o limit ?) s group by s.bucket) c)`;

function readySql({ ready, leases, instances }: TableNames): ReadySql {
  const heads = `select g.bucket, f.seq, f.id, ${MILLISECONDS(`${NOW} - case when isfinite(f.created_at) then f.created_at end`)},
     c.ready, l.owner, case when isfinite(l.expires_at) then ${MILLISECONDS(`l.expires_at - ${NOW}`)} else 9e15 end,
     exists (select from ${instances} i where i.owner = l.owner and i.expires_at > ${NOW})
   from unnest(?::smallint[], ?::bigint[]) g(bucket, after)
   cross join lateral (select o.seq, o.id, o.created_at from ${ready} o
     where o.transport = ?::smallint and o.bucket = g.bucket and o.seq > g.after order by o.seq limit 1) f
   cross join lateral (select count(*) ready from (select from ${ready} o
     where o.transport = ?::smallint and o.bucket = g.bucket and o.seq >= f.seq order by o.seq limit ?) s) c
   left join ${leases} l on l.transport = ?::smallint and l.bucket = g.bucket and l.owner is not null and l.expires_at > ${NOW}`;
  return {
    ready: (transport, limit) =>
      byIndex(
        `select count(*) from (select from ${ready} o where o.transport = ?::smallint limit ?) s`,
        transport,
        limit,
      ),
    heads: (transport, places, most) =>
      byIndex(
        heads,
        ...[plainArray(places.map(([bucket]) => bucket)), plainArray(places.map(([, after]) => after))],
        ...[transport, transport, most, transport],
      ),
  };
}
