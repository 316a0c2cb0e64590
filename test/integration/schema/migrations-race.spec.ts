import { Logger } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { openStore } from '../../support/open-store.js';
import type { OutboxStore } from '../../../lib/store/outbox-store.js';
import { outboxMigrations } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { until } from '../../support/until.js';
import { describeOnEach, describeWith } from '../../support/services.js';
import { makeVersion1 } from '../../support/version-1.js';

const SETTINGS = { buckets: 8, ordering: 'key', coordination: 'buckets' } as const;
/** Each as one process: a pool and connections of its own. */
const PROCESSES = 4;
const ROUNDS = 2;

describeOnEach([], 'Tables that several processes make at once', (kind) => {
  let database: TestDatabase;
  let processes: DataSource[];
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    processes = [];
  });
  afterEach(async () => {
    for (const one of processes) if (one.isInitialized) await one.destroy();
    await database.drop();
  });
  const options = (migrationsRun: boolean): DataSourceOptions =>
    ({ ...database.options, migrations: outboxMigrations(SETTINGS), migrationsRun }) as DataSourceOptions;
  /** TypeORM's own table of migrations is there: its race is TypeORM's. */
  async function prepare(version: 'fresh' | 'version 1'): Promise<void> {
    const first = await new DataSource(options(false)).initialize();
    processes.push(first);
    await first.showMigrations();
    if (version === 'fresh') return;
    await makeVersion1(first, kind, 'key');
  }
  async function withStore<T>(on: DataSource, work: (store: OutboxStore) => Promise<T>): Promise<T> {
    const own = {
      setup: 'check',
      schema: undefined,
      prefix: 'outbox_',
      poolSize: 2,
      preparedStatements: true,
    } as const;
    const store = openStore(on, { ...SETTINGS, onPublished: 'delete', options: own });
    return work(store).finally(() => store.close());
  }
  const isRight = (): Promise<void> => withStore(processes[0] as DataSource, (store) => store.setup.check(SETTINGS));
  const failuresOf = async (works: readonly Promise<unknown>[]): Promise<string[]> =>
    (await Promise.allSettled(works)).flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));

  /** TypeORM has no lock: its table is made by one of them, and each that looked before the others were through writes its rows. */
  it('I11: as in the first steps, in an empty database: all start, after a second try, and one revert of each step leads back', async () => {
    Logger.overrideLogger(false);
    const imports = [TypeOrmModule.forRoot({ ...options(true), retryAttempts: 200, retryDelay: 50 })];
    const start = (): Promise<TestingModule> => Test.createTestingModule({ imports }).compile();
    const started = await Promise.all(Array.from({ length: PROCESSES }, start));
    processes = started.map((app) => app.get(DataSource));
    await isRight();
    const [first] = processes as [DataSource];
    const names = outboxMigrations(SETTINGS).map((step) => new step().name);
    const rows = async (): Promise<string[]> =>
      ((await first.query('select name from migrations')) as { name: string }[]).map(({ name }) => name);
    expect(new Set(await rows())).toEqual(new Set(names));
    for (const _ of names) await first.undoLastMigration();
    expect(await rows()).toEqual([]);
    await expect(isRight()).rejects.toMatchObject({ code: 'SCHEMA_MISSING' });
  });

  describe.each(['fresh', 'version 1'] as const)('in a database that is %s', (version) => {
    it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
      'I11: by migrations at the start of each: all start, and the tables are right (round %i)',
      async () => {
        await prepare(version);
        const starting = Array.from({ length: PROCESSES }, () => new DataSource(options(true)));
        processes.push(...starting);
        expect(await failuresOf(starting.map((one) => one.initialize()))).toEqual([]);
        await isRight();
      },
    );

    it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
      'I11: by setup "create": all start, and the tables are right (round %i)',
      async () => {
        await prepare(version);
        const [first] = processes as [DataSource];
        const starting = Array.from({ length: PROCESSES }, () =>
          withStore(first, (store) => store.setup.create(SETTINGS)),
        );
        expect(await failuresOf(starting)).toEqual([]);
        await isRight();
      },
    );
  });
});

describeWith('postgres', 'An index that is built beside others', () => {
  const INDEX = `'"public"."outbox_dedup_id"'`;
  let database: TestDatabase;
  let other: DataSource;
  let migrator: DataSource;
  beforeEach(async () => {
    database = await createTestDatabase('postgres');
    other = await new DataSource({ ...database.options, poolSize: 4 } as DataSourceOptions).initialize();
    await makeVersion1(other, 'postgres', 'key');
    migrator = new DataSource({
      ...database.options,
      migrations: outboxMigrations(SETTINGS),
      migrationsRun: true,
    } as DataSourceOptions);
  });
  afterEach(async () => {
    for (const one of [migrator, other]) if (one.isInitialized) await one.destroy();
    await database.drop();
  });
  const found = async (): Promise<{ oid: string; valid: boolean }[]> =>
    other.query(
      `select indexrelid::text as oid, indisvalid as valid from pg_index where indexrelid = to_regclass(${INDEX})`,
    );
  const running = async (query: string): Promise<{ began: string }[]> =>
    other.query(
      `select query_start::text as began from pg_stat_activity
       where datname = current_database() and state = 'active' and query like '${query}%'`,
    );

  it('I11: is not dropped by a session that saw it unfinished while another one had the turn', async () => {
    await other.query('create index outbox_dedup_id on outbox_dedup (id)');
    await other.query(`update pg_index set indisvalid = false where indexrelid = to_regclass(${INDEX})`);
    const [before] = await found();
    const builder = other.createQueryRunner();
    await builder.query(`select pg_advisory_lock(hashtext(${INDEX}))`);
    const migrated = migrator.initialize();
    await until(async () => (await running('select pg_catalog.pg_sleep')).length > 0);
    await builder.query(`update pg_index set indisvalid = true where indexrelid = to_regclass(${INDEX})`);
    await migrated;
    expect(await found()).toEqual([{ oid: before?.oid, valid: true }]);
    await builder.query(`select pg_advisory_unlock(hashtext(${INDEX}))`);
    await builder.release();
  });

  it('I11: is tried once more where a transaction with a snapshot outlasts the first try', async () => {
    const reader = other.createQueryRunner();
    await reader.startTransaction('REPEATABLE READ');
    await reader.query('select 1 from outbox_meta');
    const migrated = migrator.initialize();
    const tries = new Set<string>();
    await until(async () => {
      for (const { began } of await running('create index concurrently')) tries.add(began);
      return tries.size === 2;
    });
    await reader.commitTransaction();
    await reader.release();
    await migrated;
    expect(await found()).toMatchObject([{ valid: true }]);
  });
});
