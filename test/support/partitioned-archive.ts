import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxPartitionMaintainer, type OutboxStore } from '../../lib/index.js';
import { outboxMigrations } from '../../lib/data-layers/typeorm/index.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import type { PartitionRequest } from '../../lib/partitions/request.js';
import { createTestDatabase, type TestDatabase } from './databases.js';
import { openStore } from './open-store.js';
import { RecordedHooks } from './relay.js';
import { dialectOf, type DatabaseKind } from './services.js';

export const DAY = 86_400_000;
const INERT = { kind: 'none', receipt: 'broker', create: () => Promise.reject(new Error('no relay here')) } as const;

/** A database whose archive is in partitions (or not), rows in it, and maintainers of it. */
export class PartitionedArchive {
  readonly hooks = new RecordedHooks();
  /** @internal */ readonly stores: OutboxStore[] = [];

  constructor(
    readonly kind: DatabaseKind,
    readonly database: TestDatabase,
    readonly db: DataSource,
  ) {}

  static async make(kind: DatabaseKind, partitionedArchive = true): Promise<PartitionedArchive> {
    const database = await createTestDatabase(kind);
    const migrations = outboxMigrations({ partitionedArchive, buckets: 8 });
    const db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
    await db.runMigrations();
    return new PartitionedArchive(kind, database, db);
  }

  store(dataSource = this.db): OutboxStore {
    const options = resolveOptions({ transports: { default: INERT } }).database;
    const store = openStore(dataSource, {
      options,
      buckets: 8,
      ordering: 'key',
      coordination: 'buckets',
      onPublished: 'archive',
      statementTimeout: 10_000,
    });
    this.stores.push(store);
    return store;
  }

  /** One whose passes have these rules, where they have no others. */
  maintainer(rules: PartitionRequest = {}, store = this.store()): OutboxPartitionMaintainer {
    const { partitions } = resolveOptions({ transports: { default: INERT }, partitions: { period: 'day' } });
    const maintainer = new OutboxPartitionMaintainer(store, this.hooks, partitions);
    const [runOnce, plan] = [maintainer.runOnce.bind(maintainer), maintainer.plan.bind(maintainer)];
    const merged = (request: PartitionRequest = {}): PartitionRequest => ({ lookahead: '2d', ...rules, ...request });
    return Object.assign(maintainer, {
      runOnce: (request?: PartitionRequest, bounds?: object) => runOnce(merged(request), bounds),
      plan: (request?: PartitionRequest) => plan(merged(request)),
    });
  }

  /** Rows that were published at this time. */
  async publishedAt(time: number, count = 1): Promise<void> {
    for (let n = 0; n < count; n++) await this.db.query(insertAt(this.kind, new Date(time + n)));
  }

  async count(table = 'archive'): Promise<number> {
    const [row] = await this.db.query(`select count(*) as n from outbox_${table}`);
    return Number(row.n);
  }

  async isThere(table: string): Promise<boolean> {
    return this.count(table).then(
      () => true,
      () => false,
    );
  }

  /** Rows of each partition; those of the catch-all under `rest`. */
  async rows(): Promise<Record<string, number>> {
    const { partitions } = await this.maintainer().status();
    const counts = partitions.map(({ name }) => [name, name] as const);
    const rest = this.kind === 'postgres' ? 'default' : 'pmax';
    const found = await Promise.all(
      [...counts, ['rest', rest] as const].map(async ([key, name]) => {
        const from = this.kind === 'postgres' ? `outbox_archive_${name}` : `outbox_archive partition (${name})`;
        const [row] = await this.db.query(`select count(*) as n from ${from}`);
        return [key, Number(row.n)] as const;
      }),
    );
    return Object.fromEntries(found.filter(([, count]) => count > 0));
  }

  async close(): Promise<void> {
    await Promise.all(this.stores.map((store) => store.close()));
    await this.db.destroy();
    await this.database.drop();
  }
}

let seq = 0;
export function insertAt(kind: DatabaseKind, time: Date): string {
  const at = time.toISOString();
  const id = `00000000-0000-7000-8000-${String(++seq).padStart(12, '0')}`;
  return dialectOf(kind) === 'postgres'
    ? `insert into outbox_archive (bucket, seq, id, topic, type, published_at) values (0, ${seq}, '${id}', 't', 't', '${at}')`
    : `insert into outbox_archive (bucket, seq, id, topic, type, published_at) values (0, ${seq}, '${id}', 't', 't', '${at.replace('T', ' ').replace('Z', '')}')`;
}

/** The name of the partition of a day. */
export const dayName = (time: number): string => `p${new Date(time).toISOString().slice(0, 10).replaceAll('-', '')}`;
