import { systemClock } from '../../../time/clock.js';
import {
  GLANCE_TIMEOUT,
  OFTEN,
  perBucket,
  type BoundedCount,
  type GlanceRequest,
  type Head,
  type TransportGlance,
} from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { literal } from '../../names.js';
import type { Statement } from '../../sql.js';
import type { TimedReads } from '../inspect/timed-reads.js';
import { plainArray } from '../arrays.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import { statement } from '../statement.js';

type Row = readonly unknown[];

/** What a probe asks. Each part reads a bounded number of index entries, and both statements together have a deadline. */
export class PostgresGlance {
  private readonly countsSql: Statement;
  private readonly headsSql: Statement;

  constructor(
    readonly search: Pick<TimedReads, 'prepared'>,
    names: TableNames,
    readonly settings: StoreSettings,
  ) {
    this.countsSql = countsStatement(names, settings);
    this.headsSql = headsStatement(names);
  }

  async look(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    const deadline = systemClock.monotonic() + GLANCE_TIMEOUT;
    const { limit, buckets, after } = request;
    const of = Math.ceil(limit / this.settings.buckets);
    const asked = this.countsSql.bind(limit, of, of, limit, limit, limit);
    const counts = await this.search.prepared(deadline, asked, 'by index');
    if (counts === undefined) return undefined;
    const places = counts.flatMap(([id]) => buckets.map((bucket) => [Number(id), bucket] as const));
    const lists = [
      places.map(([transport]) => transport),
      places.map(([, bucket]) => bucket),
      places.map(([transport, bucket]) => after(transport, bucket)),
    ].map(plainArray);
    const heads = await this.search.prepared(deadline, this.headsSql.bind(...lists, perBucket(request)), 'by index');
    if (heads === undefined) return undefined;
    return counts.map((row) => {
      const mine = heads.filter(([transport]) => transport === row[0]);
      return readGlance(row, mine.map(readHead), this.settings.buckets);
    });
  }
}

function readGlance(row: Row, heads: readonly Head[], buckets: number): TransportGlance {
  const [transport, name, scheduled, waiting, fullDue, often, mostAttempts, blocked, keys, fullBlocking, ...others] =
    row;
  const [dead, fullDead, leased, leases, hiding, readOnly] = others;
  const atLeast: BoundedCount[] = [
    ...(fullDue === 't' ? (['scheduled', 'waiting'] as const) : []),
    ...(fullBlocking === 't' ? (['blocked', 'blockedKeys'] as const) : []),
    ...(fullDead === 't' ? (['dead'] as const) : []),
  ];
  return {
    transport: Number(transport),
    name: name as string,
    scheduled: Number(scheduled),
    waiting: Number(waiting),
    blocked: Number(blocked),
    dead: Number(dead),
    blockedKeys: Number(keys),
    leasedBuckets: Number(leased),
    missingLeases: buckets - Number(leases),
    rowsHidden: Number(hiding) > 0,
    readOnly: readOnly === 't',
    failingOften: Number(often),
    mostAttempts: Number(mostAttempts),
    ...(atLeast.length === 0 ? {} : { atLeast }),
    heads,
  };
}

function readHead([, bucket, seq, id, age, ready, owner, remaining, alive]: Row): Head {
  return {
    bucket: Number(bucket),
    seq: seq as string,
    id: id as string,
    age: age === null ? null : Math.max(0, Number(age)),
    ready: Number(ready),
    lease: owner === null ? null : { owner: owner as string, remaining: Number(remaining), alive: alive === 't' },
  };
}

const MILLISECONDS = (interval: string): string =>
  `ceil(extract(epoch from ${interval}) operator(pg_catalog.*) 1000)::bigint`;

/**
 * Of what is due the first of each bucket: retries come before reminders for next month. Of the dead the last ones of all
 * transports: no index has them by transport.
 */
function countsStatement({ transports, ready, parked, leases }: TableNames, { buckets }: StoreSettings): Statement {
  return statement(
    'outbox_glance_counts',
    `with died as materialized (select o.transport from ${parked} o where o.died_at is not null and o.state = ${DEAD}
       order by o.died_at desc limit ?)
     select t.id, t.name, d.scheduled, d.waiting, d.cut, d.often, d.most, b.blocked, b.keys, b.cut, x.dead, x.cut,
       (select count(*) from ${leases} l where l.transport = t.id and l.owner is not null and l.expires_at > clock_timestamp()),
       (select count(*) from ${leases} l where l.transport = t.id and l.bucket < ${buckets}),
       (select count(*) from (values (${literal(ready)}), (${literal(parked)})) n(name) where row_security_active(to_regclass(n.name))),
       pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on'
     from ${transports} t
     cross join lateral (select sum(c.scheduled) scheduled, sum(c.waiting) waiting, sum(c.often) often, max(c.most) most, bool_or(c.cut) cut
       from generate_series(0, ${buckets - 1}) g
       cross join lateral (select count(*) filter (where s.state = ${SCHEDULED}) scheduled, count(*) filter (where s.state = ${WAITING}) waiting,
           count(*) filter (where s.state = ${WAITING} and s.attempts >= ${OFTEN}) often,
           coalesce(max(s.attempts) filter (where s.state = ${WAITING} and s.attempts >= ${OFTEN}), 0) most, count(*) >= ? cut
         from (select o.state, o.attempts from ${parked} o where o.transport = t.id and o.bucket = g and o.due_at is not null
           order by o.due_at limit ?) s) c) d
     cross join lateral (select count(*) filter (where s.state = ${BLOCKED}) blocked, count(distinct (s.bucket, s.key)) keys, count(*) >= ? cut
       from (select o.state, o.bucket, o.key from ${parked} o where o.transport = t.id and o.blocking limit ?) s) b
     cross join lateral (select count(*) filter (where died.transport = t.id) dead, count(*) >= ? cut from died) x
     order by t.id`,
  );
}

function headsStatement({ ready, leases, instances }: TableNames): Statement {
  return statement(
    'outbox_glance_heads',
    `select g.transport, g.bucket, f.seq, f.id,
       ${MILLISECONDS('clock_timestamp() - case when isfinite(f.created_at) then f.created_at end')},
       c.ready, l.owner, case when isfinite(l.expires_at) then ${MILLISECONDS('l.expires_at - clock_timestamp()')} else 9e15 end,
       exists (select from ${instances} i where i.owner = l.owner and i.expires_at > clock_timestamp())
     from unnest(?::smallint[], ?::smallint[], ?::bigint[]) g(transport, bucket, after)
     cross join lateral (select o.seq, o.id, o.created_at from ${ready} o
       where o.transport = g.transport and o.bucket = g.bucket and o.seq > g.after order by o.seq limit 1) f
     cross join lateral (select count(*) ready from (select from ${ready} o
       where o.transport = g.transport and o.bucket = g.bucket and o.seq >= f.seq order by o.seq limit ?) s) c
     left join ${leases} l on l.transport = g.transport and l.bucket = g.bucket and l.owner is not null
       and l.expires_at > clock_timestamp()`,
  );
}
