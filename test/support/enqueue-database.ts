import { DataSource, type QueryRunner } from 'typeorm';
import { type OutboxStore, OutboxService } from '../../lib/index.js';
import { TypeOrm } from '../../lib/data-layers/typeorm/typeorm.js';
import type { EnqueueRuntime } from '../../lib/enqueue/runtime.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { openStore } from './open-store.js';
import { createTestDatabase } from './databases.js';
import { definition, enqueueOptions, enqueueRuntime } from './enqueue.js';
import type { DatabaseKind } from './services.js';

export interface StoredRow {
  readonly id: string;
  readonly type: string;
  readonly key: string | null;
}

/** An application's database with an outbox, a table `thing` of the application, and a second connection that looks. */
export interface EnqueueDatabase {
  readonly dataSource: DataSource;
  readonly store: OutboxStore;
  readonly transportIds: ReadonlyMap<string, number>;
  /** What is committed, scheduled messages included, as another session sees it; oldest id first. */
  rows(): Promise<StoredRow[]>;
  types(): Promise<string[]>;
  /** PostgreSQL, strict order: rows that were committed, and have no number. */
  staged(): Promise<number>;
  things(): Promise<number>;
  /** A write of the application. */
  addThing(runner: Pick<QueryRunner, 'query'>): Promise<unknown>;
  clear(): Promise<void>;
  /** @param parts of the runtime; `options` are merged. */
  outbox(parts?: Partial<Omit<EnqueueRuntime, 'options'>> & { options?: Partial<ResolvedOptions> }): OutboxService;
  drop(): Promise<void>;
}

const TRANSPORTS = new Map([
  ['default', definition()],
  ['other', definition()],
]);
const DATABASE = {
  setup: 'create',
  schema: undefined,
  prefix: 'outbox_',
  pooler: undefined,
} as const;

/** One for the `describe` that calls it, empty before each of its cases; there from `beforeAll` on. */
export function useEnqueueDatabase(...args: Parameters<typeof createEnqueueDatabase>): EnqueueDatabase {
  const database = {} as EnqueueDatabase;
  beforeAll(async () => void Object.assign(database, await createEnqueueDatabase(...args)));
  beforeEach(() => database.clear());
  afterAll(() => database.drop?.());
  return database;
}

export async function createEnqueueDatabase(
  kind: DatabaseKind,
  poolSize = 4,
  ordering: 'key' | 'strict' = 'key',
): Promise<EnqueueDatabase> {
  const settings = { buckets: 32, ordering, coordination: 'buckets' } as const;
  const database = await createTestDatabase(kind);
  const dataSource = await new DataSource({ ...database.options, poolSize } as never).initialize();
  const observer = await new DataSource({ ...database.options, poolSize: 1 } as never).initialize();
  await observer.query('create table thing (id int not null)');
  const close = async (): Promise<void> => {
    if (dataSource.isInitialized) await dataSource.destroy();
    await observer.destroy();
    await database.drop();
  };
  let store: OutboxStore;
  try {
    store = openStore(dataSource, { options: DATABASE, ...settings, onPublished: 'delete' });
    await store.setup.create(settings);
  } catch (error) {
    await close();
    throw error;
  }
  const transportIds = await store.setup.transports([...TRANSPORTS.keys()], 'default');
  const key = kind === 'postgres' ? 'key' : 'cast(`key` as char)';
  const columns = `id, type, ${key} as k`;
  const rows = async (): Promise<StoredRow[]> => {
    const found = (await observer.query(
      `select ${columns} from outbox_ready union all select ${columns} from outbox_parked order by id`,
    )) as { id: string; type: string; k: string | null }[];
    return found.map(({ id, type, k }) => ({ id: id.toLowerCase(), type, key: k }));
  };
  return {
    dataSource,
    store,
    transportIds,
    rows,
    types: async () => (await rows()).map(({ type }) => type).sort(),
    staged: async () => {
      if (kind !== 'postgres' || ordering === 'key') return 0;
      return Number((await observer.query('select count(*) as n from outbox_staged'))[0].n);
    },
    things: async () => Number((await observer.query('select count(*) as n from thing'))[0].n),
    addThing: (runner) => runner.query('insert into thing (id) values (1)'),
    clear: async () => {
      for (const table of ['outbox_ready', 'outbox_parked', 'outbox_dedup', 'thing'])
        await observer.query(`delete from ${table}`);
    },
    outbox: ({ options, ...parts } = {}) =>
      new OutboxService(
        enqueueRuntime(new TypeOrm(dataSource), {
          store,
          transportIds,
          ...parts,
          options: enqueueOptions({ transports: TRANSPORTS, ordering, ...options }),
        }),
      ),
    drop: async () => {
      await store.close();
      await close();
    },
  };
}
