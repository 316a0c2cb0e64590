import { DataSource } from 'typeorm';
import type { OpenTransaction, StoreHarness } from 'nestjs-outbox/testing';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { openMysqlDatabase } from '../../lib/data-layers/typeorm/mysql.js';
import { MysqlStore } from '../../lib/store/mysql/store.js';
import type { SchemaSettings } from '../../lib/store/outbox-store.js';
import { connectionSchema } from '../../lib/data-layers/typeorm/dialect.js';
import type { StoreSettings } from '../../lib/store/names.js';
import { createTestDatabase, type TestDatabase } from './databases.js';
import type { DatabaseKind } from './services.js';

/** A database of its own with the outbox's tables, for tests of the store for MariaDB and MySQL. */
export class MariaDbStores implements StoreHarness {
  readonly proof = 'probe';
  /** MySQL 8.0.15 locks a key that is there in another order than 8.0.31. */
  get dedupConflicts(): boolean {
    return this.isOldest;
  }
  isOldest = false;
  readonly settings: SchemaSettings;
  database!: TestDatabase<DatabaseKind>;
  application!: DataSource;

  /** @param session runs on each connection that a test's transaction gets; `options` go into the application's DataSource. */
  constructor(
    readonly kind: 'mariadb' | 'mysql',
    readonly fields: Partial<StoreSettings> = {},
    readonly session: string | undefined = undefined,
    readonly options: object = {},
  ) {
    const { buckets = 8, ordering = 'key', coordination = 'buckets' } = fields;
    this.settings = { buckets, ordering, coordination };
  }

  async start(): Promise<void> {
    this.database = await this.createDatabase();
    this.application = await new DataSource({ ...this.database.options, ...this.options } as never).initialize();
    const [{ version }] = await this.application.query('select version() as version');
    this.isOldest = version.startsWith('8.0.15');
    const store = this.open();
    await store.setup.create(this.settings);
    await store.close();
  }
  createDatabase(): Promise<TestDatabase<DatabaseKind>> {
    return createTestDatabase(this.kind);
  }
  async stop(): Promise<void> {
    await this.application.destroy();
    await this.database.drop();
  }

  get storeSettings(): StoreSettings {
    return {
      ...this.settings,
      schema: connectionSchema(this.application),
      prefix: 'outbox_',
      onPublished: 'delete',
      errorHistory: 2,
      pooler: undefined,
      statementTimeout: 10_000,
      idleWithLocks: 30_000,
      connectTimeout: 10_000,
      ...this.fields,
    };
  }
  open(): MysqlStore {
    return new MysqlStore(openMysqlDatabase(this.application, this.storeSettings), this.storeSettings);
  }

  async begin(): Promise<OpenTransaction> {
    const runner = this.application.createQueryRunner();
    if (this.session !== undefined) await runner.query(this.session);
    await runner.startTransaction();
    return {
      tx: transactionExecutor(runner),
      commit: () => runner.commitTransaction().finally(() => runner.release()),
      rollback: () => runner.rollbackTransaction().finally(() => runner.release()),
    };
  }
  async forget(transports: readonly number[]): Promise<void> {
    const { prefix } = this.storeSettings;
    const all = transports.join(', ');
    const runner = this.application.createQueryRunner();
    try {
      await runner.query('set session sql_safe_updates = 0'); // a server may have it on for everybody
      for (const table of ['ready', 'parked', 'leases'])
        await runner.query(`delete from ${prefix}${table} where transport in (${all})`);
      await runner.query(`delete from ${prefix}transports where id in (${all})`);
      await runner.query('set session sql_safe_updates = default');
    } finally {
      await runner.release();
    }
  }
  async setNextSeq(seq: string): Promise<void> {
    const runner = this.application.createQueryRunner();
    try {
      // MySQL 8.0.15 copies the table, and with NO_ZERO_DATE takes the default of a time for a date of zeros.
      if (this.isOldest) await runner.query(`set session sql_mode = ''`);
      await runner.query(`alter table ${this.storeSettings.prefix}ready auto_increment = ${seq}`);
      if (this.isOldest) await runner.query('set session sql_mode = default');
    } finally {
      await runner.release();
    }
  }
}

/** As where rows that are gone make reads of ranges slow. */
export class BoundedMariaDbStores extends MariaDbStores {
  override open(): MysqlStore {
    const store = super.open();
    store.ready.bounded.until = Infinity;
    return store;
  }
}
