import { Logger } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OutboxStore } from '../../../lib/index.js';
import { openStore } from '../../support/open-store.js';
import { outboxMigrations } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnEach } from '../../support/services.js';

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
  async function prepare(): Promise<void> {
    const first = await new DataSource(options(false)).initialize();
    processes.push(first);
    await first.showMigrations();
  }
  async function withStore<T>(on: DataSource, work: (store: OutboxStore) => Promise<T>): Promise<T> {
    const own = {
      setup: 'check',
      schema: undefined,
      prefix: 'outbox_',
      pooler: undefined,
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

  it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
    'I11: by migrations at the start of each: all start, and the tables are right (round %i)',
    async () => {
      await prepare();
      const starting = Array.from({ length: PROCESSES }, () => new DataSource(options(true)));
      processes.push(...starting);
      expect(await failuresOf(starting.map((one) => one.initialize()))).toEqual([]);
      await isRight();
    },
  );

  it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
    'I11: by setup "create": all start, and the tables are right (round %i)',
    async () => {
      await prepare();
      const [first] = processes as [DataSource];
      const starting = Array.from({ length: PROCESSES }, () =>
        withStore(first, (store) => store.setup.create(SETTINGS)),
      );
      expect(await failuresOf(starting)).toEqual([]);
      await isRight();
    },
  );
});
