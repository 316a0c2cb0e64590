import { DataSource, type DataSourceOptions } from 'typeorm';
import type { SqlExecutor } from '../../lib/store/executor.js';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import type { OpenStoreSettings } from '../../lib/nest/open-store.js';
import { openStore } from './open-store.js';
import type { PostgresStore } from '../../lib/store/postgres/store.js';
import { createTestDatabase, type TestDatabase } from './databases.js';

export const SETTINGS = { buckets: 32, ordering: 'key', coordination: 'buckets', errorHistory: 2 } as const;
export const DATABASE = {
  setup: 'create',
  schema: undefined,
  prefix: 'outbox_',
  pooler: undefined,
} as const;

/** A database of its own, an application's DataSource on it, and as many stores as wanted. */
export class PostgresFixture {
  database!: TestDatabase;
  application!: DataSource;
  /** @internal */ readonly stores: PostgresStore[] = [];

  async start(options: Partial<DataSourceOptions> = {}): Promise<this> {
    this.database = await createTestDatabase('postgres');
    this.application = await new DataSource({ ...this.database.options, ...options } as DataSourceOptions).initialize();
    return this;
  }

  store(settings: Partial<OpenStoreSettings> = {}, application = this.application): PostgresStore {
    const store = openStore(application, { ...SETTINGS, onPublished: 'delete', options: DATABASE, ...settings });
    this.stores.push(store as PostgresStore);
    return store as PostgresStore;
  }

  committed<T>(work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
    return this.application.transaction((manager) => work(transactionExecutor(manager.queryRunner as never)));
  }

  /** After each test of a file that opens one in each: a server takes 100 connections, of all files that run. */
  async closeStores(): Promise<void> {
    await Promise.all(this.stores.splice(0).map((store) => store.close()));
  }

  async stop(): Promise<void> {
    await this.closeStores();
    if (this.application?.isInitialized) await this.application.destroy();
    await this.database?.drop();
  }
}

/** Polls; the store has nothing that tells when another session is through. */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined | false>,
  timeout = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeout;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > deadline) throw new Error(`Not within ${timeout} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
