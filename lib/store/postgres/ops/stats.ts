import type { SqlResult } from '../../executor.js';
import { OFTEN, OFTEN_LOOK_LIMIT, RELAYS_LIMIT, STATS_COUNT_LIMIT, type TransportStats } from '../../admin-store.js';
import { literal, type StoreSettings, type TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { INSTANCE } from './leases.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';

/** Every count stops at a limit: looking at a backlog of millions must not cost what draining it costs. */
export function statsStatement(names: TableNames, { buckets }: StoreSettings): Statement {
  const { transports, ready, parked, leases } = names;
  const some = (what: string, from: string): string => `(select ${what} from ${from} limit ${STATS_COUNT_LIMIT}) s`;
  return statement(
    undefined,
    `select t.id, t.name, (select count(*) from ${some('1', `${ready} o where o.transport = t.id`)}),
       d.scheduled, d.waiting, b.blocked, b.keys,
       (select count(*) from ${some('1', `${parked} o where o.died_at is not null and o.state = ${DEAD} and o.transport = t.id`)}),
       (select ceil(extract(epoch from clock_timestamp() - min(f.created_at) filter (where isfinite(f.created_at))) operator(pg_catalog.*) 1000)::bigint from generate_series(0, ${buckets - 1}) g
         cross join lateral (select o.created_at from ${ready} o where o.transport = t.id and o.bucket = g order by o.seq limit 1) f),
       (select count(*) from ${leases} l where l.transport = t.id and l.owner is not null and l.expires_at > clock_timestamp()),
       (select count(*) from ${leases} l where l.transport = t.id and l.bucket < ${buckets}),
       (select count(*) from (values (${literal(ready)}), (${literal(parked)})) n(name) where row_security_active(to_regclass(n.name))),
       f.often, f.most
     from ${transports} t
     cross join lateral (select count(*) filter (where s.state = ${SCHEDULED}) scheduled, count(*) filter (where s.state = ${WAITING}) waiting
       from ${some('o.state', `${parked} o where o.transport = t.id and o.due_at is not null`)}) d
     cross join lateral (select count(*) often, coalesce(max(w.attempts), 0) most
       from (select o.attempts, o.state from ${parked} o where o.transport = t.id and o.due_at is not null limit ${OFTEN_LOOK_LIMIT}) w
       where w.state = ${WAITING} and w.attempts >= ${OFTEN}) f
     cross join lateral (select count(*) filter (where s.state = ${BLOCKED}) blocked, count(distinct (s.bucket, s.key)) keys
       from ${some('o.state, o.bucket, o.key', `${parked} o where o.transport = t.id and o.blocking`)}) b
     order by t.id`,
  );
}

export const relaysStatement = ({ instances }: TableNames): Statement =>
  statement(undefined, `select ${INSTANCE} from ${instances} i order by i.expires_at desc limit ${RELAYS_LIMIT}`);

/** Rows that fall due, and those behind them: each found by its index. */
export function byTopicStatement({ parked }: TableNames): Statement {
  const some = (which: string): string =>
    `(select o.topic, o.state from ${parked} o where o.transport = ? and ${which} limit ?)`;
  return statement(
    undefined,
    `select s.topic, count(*) from (select w.topic from ${some('o.due_at is not null')} w where w.state = ${WAITING}
       union all select b.topic from ${some('o.blocking')} b where b.state = ${BLOCKED}) s group by s.topic`,
  );
}

export function readStats({ rows }: SqlResult, { buckets }: StoreSettings): TransportStats[] {
  return rows.map((row) => {
    const [transport, name, ready, scheduled, waiting, blocked, blockedKeys, dead, oldest, ...seen] = row;
    const [leased, leases, hiding, often, most] = seen;
    return {
      transport: Number(transport),
      name: name as string,
      ready: Number(ready),
      readyIsExact: Number(ready) < STATS_COUNT_LIMIT,
      scheduled: Number(scheduled),
      waiting: Number(waiting),
      blocked: Number(blocked),
      dead: Number(dead),
      blockedKeys: Number(blockedKeys),
      oldestReadyAge: oldest === null ? null : Math.max(0, Number(oldest)), // a clock that was set back
      leasedBuckets: Number(leased),
      missingLeases: buckets - Number(leases),
      rowsHidden: Number(hiding) > 0,
      failingOften: Number(often),
      mostAttempts: Number(most),
    };
  });
}
