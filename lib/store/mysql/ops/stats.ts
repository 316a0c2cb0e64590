import type { SqlDatabase } from '../../executor.js';
import {
  OFTEN,
  OFTEN_LOOK_LIMIT,
  RELAYS_LIMIT,
  STATS_COUNT_LIMIT,
  type AdminStore,
  type TransportStats,
} from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { readTime, type Row } from '../columns.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import { sized, times } from '../statements.js';
import { INSTANCE, readInstances } from './leases.js';

/** Counts for people and probes; every count of the hot table is bounded. */
export class MysqlStats {
  readonly sql: ReturnType<typeof statsStatements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    readonly settings: StoreSettings,
  ) {
    this.sql = statsStatements(names);
  }

  async stats(): Promise<TransportStats[]> {
    const admin = this.database.connection('admin');
    const transports = (await admin.run(this.sql.transports.bind())).rows;
    const parked = (await admin.run(this.sql.parked.bind())).rows;
    const blocked = perTransport((await admin.run(this.sql.blockedKeys.bind())).rows);
    const { rows: leases } = await admin.run(this.sql.leases.bind(this.settings.buckets));
    const leased = perTransport(leases);
    const rows = perTransport(leases.map(([id, , count]) => [id, count]));
    const all: TransportStats[] = [];
    for (const [id, name] of transports) {
      const transport = Number(id);
      const of = (state: number): number =>
        Number(parked.find(([t, s]) => Number(t) === transport && Number(s) === state)?.[2] ?? 0);
      all.push({
        transport,
        name: (name as Buffer).toString('utf8'),
        ...(await this.ready(transport)),
        ...(await this.often(transport)),
        scheduled: of(SCHEDULED),
        waiting: of(WAITING),
        blocked: of(BLOCKED),
        dead: of(DEAD),
        blockedKeys: blocked.get(transport) ?? 0,
        leasedBuckets: leased.get(transport) ?? 0,
        missingLeases: this.settings.buckets - (rows.get(transport) ?? 0),
      });
    }
    return all;
  }

  async parkedByTopic(transport: number, limit: number): Promise<ReadonlyMap<string, number>> {
    const sql = this.sql.byTopic.bind(transport, limit, transport, limit);
    const { rows } = await this.database.connection('admin').run(sql);
    return new Map(rows.map(([topic, count]) => [(topic as Buffer).toString('utf8'), Number(count)]));
  }

  async relays(): ReturnType<AdminStore['relays']> {
    const { rows } = await this.database.connection('admin').run(this.sql.relays.bind());
    return { instances: readInstances(rows), now: Number(rows[0]?.[3]) };
  }

  private async often(transport: number): Promise<Pick<TransportStats, 'failingOften' | 'mostAttempts'>> {
    const { rows } = await this.database.connection('admin').run(this.sql.often.bind(transport));
    return { failingOften: Number(rows[0]?.[0]), mostAttempts: Number(rows[0]?.[1]) };
  }

  private async ready(transport: number): Promise<Pick<TransportStats, 'ready' | 'readyIsExact' | 'oldestReadyAge'>> {
    const admin = this.database.connection('admin');
    const count = Number((await admin.run(this.sql.ready.bind(transport, STATS_COUNT_LIMIT))).rows[0]?.[0]);
    const places = Array.from({ length: this.settings.buckets }, (_, bucket) => [transport, bucket]).flat();
    const [first = []] = (await admin.run(this.sql.oldest(this.settings.buckets).bind(...places))).rows;
    const created = first.slice(1).flatMap((text) => (text === null ? [] : [readTime(text)]));
    return {
      ready: count,
      readyIsExact: count < STATS_COUNT_LIMIT,
      oldestReadyAge: created.length === 0 ? null : Math.max(0, Math.round(readTime(first[0]) - Math.min(...created))),
    };
  }
}

function statsStatements({ ready, parked, leases, instances, transports }: TableNames) {
  const some = (state: number): string =>
    `(select cast(topic as binary) topic from ${parked} force index (by_state) where transport = ? and state = ${state} limit ?)`;
  const oldest = `(select created_at from ${ready} force index (primary) where transport = ? and bucket = ? order by seq limit 1)`;
  return {
    transports: statement('transports', `select id, name from ${transports} order by id`),
    ready: statement('count ready', `select count(*) from (select 1 from ${ready} where transport = ? limit ?) r`),
    oldest: sized((n) => `select utc_timestamp(6), ${times(n, oldest, ', ')}`),
    parked: statement(
      'count parked',
      `select transport, state, count(*) from ${parked} force index (by_state) group by transport, state`,
    ),
    often: statement(
      'count those that fail often',
      `select count(*), coalesce(max(attempts), 0) from (select attempts from ${parked} force index (by_state)
      where transport = ? and state = ${WAITING} limit ${OFTEN_LOOK_LIMIT}) w where attempts >= ${OFTEN}`,
    ),
    byTopic: statement(
      'count parked by topic',
      `select topic, count(*) from (${some(WAITING)} union all ${some(BLOCKED)}) s group by topic`,
    ),
    blockedKeys: statement(
      'count blocked keys',
      `select transport, count(*) from (select distinct transport, bucket, \`key\`
      from ${parked} force index (by_key) where blocking = 1) k group by transport`,
    ),
    leases: statement(
      'count leases',
      `select transport, sum(owner is not null and expires_at > utc_timestamp(6)), count(*) from ${leases}
      where bucket < ? group by transport`,
    ),
    relays: statement('relays', `select ${INSTANCE} from ${instances} order by expires_at desc limit ${RELAYS_LIMIT}`),
  };
}

export const perTransport = (rows: readonly Row[]): Map<number, number> =>
  new Map(rows.map(([id, count]) => [Number(id), Number(count)]));
