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
import type { SqlDatabase } from '../../executor.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { capabilitiesOf } from '../capabilities.js';
import { readTime, type Row } from '../columns.js';
import { WAITING } from '../../parked-state.js';
import { isReadOnly, READ_ONLY, type MysqlServer } from '../schema/server.js';
import { times } from '../statements.js';
import { perTransport, type MysqlStats } from './stats.js';

/** `ER_STATEMENT_TIMEOUT` of MariaDB, `ER_QUERY_TIMEOUT` of MySQL. */
const CANCELED: ReadonlySet<unknown> = new Set([1969, 3024]);
class OutOfTime extends Error {}

/** By name, for one transport after the other. */
interface Parts {
  readonly transport: number;
  readonly limit: number;
  readonly deadline: number;
}

/** What a probe asks. Each part reads a bounded number of index entries, and all statements together have a deadline. */
export class MysqlGlance {
  constructor(
    readonly database: SqlDatabase,
    readonly server: MysqlServer,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly small: MysqlStats['sql'],
  ) {}

  async look(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    const deadline = systemClock.monotonic() + GLANCE_TIMEOUT;
    const admin = this.database.connection('admin');
    const { rows: transports } = await admin.run(this.small.transports.bind());
    const { rows: leases } = await admin.run(this.small.leases.bind(this.settings.buckets));
    const [leased, rows] = [perTransport(leases), perTransport(leases.map(([id, , count]) => [id, count]))];
    const all: TransportGlance[] = [];
    try {
      for (const [id, name] of transports) {
        const transport = Number(id);
        const parts = { transport, limit: request.limit, deadline };
        all.push({
          transport,
          name: (name as Buffer).toString('utf8'),
          heads: await this.heads(parts, request),
          ...(await this.parked(parts)),
          leasedBuckets: leased.get(transport) ?? 0,
          missingLeases: this.settings.buckets - (rows.get(transport) ?? 0),
        });
      }
    } catch (error) {
      if (error instanceof OutOfTime || CANCELED.has((error as { errno?: unknown }).errno)) return undefined;
      throw error;
    }
    return all;
  }

  private async select(rest: string, values: readonly unknown[], deadline: number): Promise<readonly Row[]> {
    const left = Math.floor(deadline - systemClock.monotonic());
    if (left <= 0) throw new OutOfTime();
    const { selectWithin } = capabilitiesOf((await this.server.state()).version);
    const sql = statement(undefined, selectWithin(left, rest)).bind(...values);
    return (await this.database.connection('admin').run(sql)).rows;
  }

  private async heads({ transport, deadline }: Parts, request: GlanceRequest): Promise<Head[]> {
    const { ready, leases, instances } = this.names;
    const { buckets } = request;
    const most = perBucket(request);
    const place = `from ${ready} force index (primary) where transport = ? and bucket = ? and seq > ? order by seq limit`;
    const each = `(select bucket, seq, id, created_at, (select count(*) from (select 1 ${place} ?) c) waiting ${place} 1)`;
    const rows = await this.select(
      `f.bucket, f.seq, f.id, f.created_at, f.waiting, l.owner, timestampdiff(microsecond, utc_timestamp(6), l.expires_at),
        exists (select 1 from ${instances} i where i.owner = l.owner and i.expires_at > utc_timestamp(6)), utc_timestamp(6)
      from (${times(buckets.length, each, ' union all ')}) f
      left join ${leases} l on l.transport = ? and l.bucket = f.bucket and l.owner is not null and l.expires_at > utc_timestamp(6)`,
      [
        ...buckets.flatMap((bucket) => {
          const from = [transport, bucket, BigInt(request.after(transport, bucket))];
          return [...from, most, ...from];
        }),
        transport,
      ],
      deadline,
    );
    return rows.map(readHead);
  }

  /** Counted by an index each; what must be looked at in the rows, only where there is something. */
  private async parked(parts: Parts): Promise<Parked> {
    const { transport, limit, deadline } = parts;
    const count = `(select count(*) from (select 1 from ${this.names.parked} force index (by_state)
      where transport = ? and state = ? limit ?) c)`;
    const values = [1, 2, 3, 4].flatMap((state) => [transport, state, limit]);
    const [counts = []] = await this.select(`${times(4, count, ', ')}, ${READ_ONLY}`, values, deadline);
    const [scheduled = 0, waiting = 0, blocked = 0, dead = 0] = counts.slice(0, 4).map(Number);
    const readOnly = isReadOnly(counts.slice(4));
    const keys = waiting + blocked + dead > 0 ? await this.blockedKeys(parts) : { count: 0, cut: false };
    const often = waiting > 0 ? await this.often(parts) : { failingOften: 0, mostAttempts: 0 };
    const all = { scheduled, waiting, blocked, dead };
    const atLeast: BoundedCount[] = [
      ...(Object.keys(all) as (keyof typeof all)[]).filter((state) => all[state] >= limit),
      ...(keys.cut ? (['blockedKeys'] as const) : []),
    ];
    return { ...all, blockedKeys: keys.count, ...often, readOnly, ...(atLeast.length === 0 ? {} : { atLeast }) };
  }

  private async often({ transport, limit, deadline }: Parts): Promise<Pick<Parked, 'failingOften' | 'mostAttempts'>> {
    const [row = []] = await this.select(
      `count(*), coalesce(max(attempts), 0) from (select attempts from ${this.names.parked} force index (by_state)
        where transport = ? and state = ${WAITING} limit ?) w where attempts >= ${OFTEN}`,
      [transport, limit],
      deadline,
    );
    return { failingOften: Number(row[0]), mostAttempts: Number(row[1]) };
  }

  private async blockedKeys({ transport, limit, deadline }: Parts): Promise<{ count: number; cut: boolean }> {
    const { buckets } = this.settings;
    const most = Math.ceil(limit / buckets);
    const each = `(select bucket, \`key\` from ${this.names.parked} force index (by_key)
      where transport = ? and bucket = ? and blocking = 1 limit ?)`;
    const rows = await this.select(
      `b.bucket, count(distinct b.\`key\`) + max(b.\`key\` is null), count(*) from (${times(buckets, each, ' union all ')}) b group by b.bucket`,
      Array.from({ length: buckets }, (_, bucket) => [transport, bucket, most]).flat(),
      deadline,
    );
    return {
      count: rows.reduce((sum, [, keys]) => sum + Number(keys), 0),
      cut: rows.some(([, , read]) => Number(read) >= most),
    };
  }
}

type Parked = Pick<
  TransportGlance,
  | 'scheduled'
  | 'waiting'
  | 'blocked'
  | 'dead'
  | 'blockedKeys'
  | 'failingOften'
  | 'mostAttempts'
  | 'atLeast'
  | 'readOnly'
>;

function readHead([bucket, seq, id, created, ready, owner, remaining, alive, now]: Row): Head {
  const age = Math.round(readTime(now) - readTime(created));
  return {
    bucket: Number(bucket),
    seq: String(seq),
    id: id as string,
    age: Math.max(0, age),
    ready: Number(ready),
    lease:
      owner === null
        ? null
        : { owner: owner as string, remaining: Number(remaining) / 1000, alive: Number(alive) === 1 },
  };
}
