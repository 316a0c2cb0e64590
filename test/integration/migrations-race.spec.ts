import { DataSource, type DataSourceOptions } from 'typeorm';
import { openStore } from '../../lib/store/open-store.js';
import type { OutboxStore } from '../../lib/store/outbox-store.js';
import { outboxMigrations } from '../../lib/typeorm.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeOnEach } from '../support/services.js';
import { makeVersion1 } from '../support/version-1.js';

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
  const isRight = (): Promise<void> => withStore(processes[0] as DataSource, (store) => store.check(SETTINGS));
  const failuresOf = async (works: readonly Promise<unknown>[]): Promise<string[]> =>
    (await Promise.allSettled(works)).flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));

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
        const starting = Array.from({ length: PROCESSES }, () => withStore(first, (store) => store.create(SETTINGS)));
        expect(await failuresOf(starting)).toEqual([]);
        await isRight();
      },
    );
  });
});
