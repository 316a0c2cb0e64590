import type { SqlConnection } from '../../executor.js';
import type { AdminStore, GlanceRequest, TransportGlance, TransportStats } from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { TimedReads } from '../inspect/timed-reads.js';
import { PostgresGlance } from './glance.js';
import { readInstances } from './leases.js';
import { byTopicStatement, readStats, relaysStatement, statsStatement } from './stats.js';

/** What operators and `health()` ask. */
export class PostgresAdmin implements AdminStore {
  private readonly statsSql;
  private readonly relaysSql;
  private readonly byTopicSql;
  private readonly glances: PostgresGlance;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    private readonly settings: StoreSettings,
  ) {
    this.statsSql = statsStatement(names, settings);
    this.relaysSql = relaysStatement(names);
    this.byTopicSql = byTopicStatement(names);
    this.glances = new PostgresGlance(new TimedReads(connection), names, settings);
  }

  async stats(): Promise<TransportStats[]> {
    return readStats(await this.connection().run(this.statsSql.bind()), this.settings);
  }

  async relays(): ReturnType<AdminStore['relays']> {
    const { rows } = await this.connection().run(this.relaysSql.bind());
    return { instances: readInstances(rows), now: Number(rows[0]?.[3]) };
  }

  async parkedByTopic(transport: number, limit: number): Promise<ReadonlyMap<string, number>> {
    const { rows } = await this.connection().run(this.byTopicSql.bind(transport, limit, transport, limit));
    return new Map(rows.map(([topic, count]) => [topic as string, Number(count)]));
  }

  glance(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    return this.glances.look(request);
  }
}
