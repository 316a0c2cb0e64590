import { systemClock } from '../../time/clock.js';
import {
  perBucket,
  STATS_COUNT_LIMIT,
  STATS_TIMEOUT,
  type AdminStore,
  type BoundedCount,
  type Head,
  type StatsRequest,
  type TransportStats,
} from '../admin-store.js';
import { outOfTime } from '../find-by-id.js';
import type { StoreSettings } from '../names.js';
import { readText, type Dialect } from './dialect.js';
import type { Rows, Select, TimedSelects } from './timed-selects.js';

type Row = Rows[number];

/** Each part reads a bounded number of index entries. */
export interface StatsSql extends ReadySql, ParkedSql {
  /** Id, name, leases that somebody holds, lease rows there are. */
  readonly transports: Select;
}
export interface ParkedSql {
  /**
   * How many are scheduled, waiting, blocked and dead; blocked keys; how many fail often, and the most attempts of one; whether row
   * security hides messages; which of the first five stopped at a limit; then what `isReadOnly` goes by.
   * @param ofBucket what a bucket has in a count at most
   */
  counts(transport: number, limit: number, ofBucket: number): Select;
  isReadOnly(columns: Row): boolean;
  /** Topic and number of what waits for a retry and of what is behind it, of each of the two up to a limit. */
  topics(transport: number, limit: number): Select;
}
export interface ReadySql {
  ready(transport: number, limit: number): Select;
  /**
   * The first ready message of each bucket behind a place: bucket, seq, id, age in milliseconds, how many are ready from there on,
   * the owner of its lease, for how many milliseconds more, whether that is heard of.
   */
  heads(transport: number, places: readonly Place[], most: number): Select;
}
type Place = readonly [bucket: number, after: string];
type Read = (one: Select) => Promise<Rows>;
const COUNTS: readonly BoundedCount[] = ['scheduled', 'waiting', 'blocked', 'dead', 'blockedKeys'];

/** What waits where. All reads of one call have a deadline together. */
export class Stats implements AdminStore {
  constructor(
    private readonly reads: TimedSelects,
    private readonly dialect: Pick<Dialect, 'isTrue'>,
    private readonly sql: StatsSql,
    private readonly settings: Pick<StoreSettings, 'buckets'>,
  ) {}

  async stats({ within = STATS_TIMEOUT, ...request }: StatsRequest = {}): Promise<TransportStats[]> {
    const all = await this.reads.several(systemClock.monotonic() + within, async (read) => {
      const transports: TransportStats[] = [];
      for (const row of await read(this.sql.transports)) transports.push(await this.of(row, request, read));
      return transports;
    });
    if (all === undefined) throw outOfTime(within);
    return all;
  }

  private async of([id, name, leased, leases]: Row, request: StatsRequest, read: Read): Promise<TransportStats> {
    const { limit = STATS_COUNT_LIMIT, look, topicsOf } = request;
    const { buckets } = this.settings;
    const transport = Number(id);
    const ofBucket = look === undefined ? limit : Math.ceil(limit / buckets);
    const [counts = []] = await read(this.sql.counts(transport, limit, ofBucket));
    const topics = topicsOf?.includes(transport) === true ? await read(this.sql.topics(transport, limit)) : undefined;
    return {
      transport,
      name: String(name),
      ...(await this.ready(transport, limit, look, read)),
      ...this.counted(counts),
      leasedBuckets: Number(leased),
      missingLeases: buckets - Number(leases),
      ...(topics && { topics: new Map(topics.map(([topic, count]) => [String(topic), Number(count)])) }),
    };
  }

  /** With a look at buckets what is ready in these, else in all. */
  private async ready(transport: number, limit: number, look: StatsRequest['look'], read: Read) {
    const buckets = look?.buckets ?? Array.from({ length: this.settings.buckets }, (_, bucket) => bucket);
    const most = look === undefined ? 1 : perBucket(limit, buckets);
    const places = buckets.map((bucket): Place => [bucket, look?.after(transport, bucket) ?? '0']);
    const heads = (await read(this.sql.heads(transport, places, most))).map((row) => this.head(row));
    const ages = heads.flatMap(({ age }) => age ?? []);
    const all = look === undefined ? Number((await read(this.sql.ready(transport, limit)))[0]?.[0]) : undefined;
    return {
      heads,
      ready: all ?? heads.reduce((sum, { ready }) => sum + ready, 0),
      readyIsExact: all === undefined ? heads.every(({ ready }) => ready < most) : all < limit,
      oldestReadyAge: ages.length === 0 ? null : Math.max(...ages),
    };
  }

  private head([bucket, seq, id, age, ready, owner, remaining, alive]: Row): Head {
    const lease = { owner: String(owner), remaining: Number(remaining), alive: this.dialect.isTrue(alive) };
    return {
      bucket: Number(bucket),
      seq: String(seq),
      id: String(id),
      age: readText(age) === null ? null : Math.max(0, Math.round(Number(age))), // a clock that was set back
      ready: Number(ready),
      lease: owner === null ? null : lease,
    };
  }

  private counted(row: Row) {
    const [scheduled, waiting, blocked, dead, blockedKeys, failingOften, mostAttempts] = row.slice(0, 7).map(Number);
    const stopped = row.slice(8, 8 + COUNTS.length);
    const atLeast = COUNTS.filter((_, n) => this.dialect.isTrue(stopped[n]));
    return {
      ...({ scheduled, waiting, blocked, dead, blockedKeys } as Record<BoundedCount, number>),
      ...({ failingOften, mostAttempts } as Record<'failingOften' | 'mostAttempts', number>),
      rowsHidden: this.dialect.isTrue(row[7]),
      readOnly: this.sql.isReadOnly(row.slice(8 + COUNTS.length)),
      ...(atLeast.length === 0 ? {} : { atLeast }),
    };
  }
}
