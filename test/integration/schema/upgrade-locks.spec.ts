import { DataSource, type DataSourceOptions, type MigrationInterface, type QueryRunner } from 'typeorm';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import { uuidV7 } from '../../../lib/message/uuid-v7.js';
import { openStore } from '../../support/open-store.js';
import { outboxMigrations } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnEach, dialectOf, type DatabaseKind } from '../../support/services.js';
import { until } from '../../support/until.js';
import { fill, fillingOf, makeVersion1 } from '../../support/version-1.js';

const OPTIONS = {
  setup: 'check',
  schema: undefined,
  prefix: 'outbox_',
  poolSize: 2,
  preparedStatements: true,
} as const;
const SETTINGS = { buckets: 8, ordering: 'key' } as const;
/** More than are copied. */
const ROWS = 5_000;

/** A lock of the test's own. */
const HOLD = { postgres: 'select pg_advisory_lock(7)', mysql: `do get_lock(concat(database(), '.held'), 600)` };
const LET_GO = { postgres: 'select pg_advisory_unlock(7)', mysql: `do release_lock(concat(database(), '.held'))` };

/** What an application has of its own behind the outbox's migrations, in the same transaction of the migrator. */
const heldMigration = (kind: DatabaseKind) =>
  class Held1895478400000 implements MigrationInterface {
    async up(runner: QueryRunner): Promise<void> {
      await runner.query(HOLD[dialectOf(kind)]);
      await runner.query(LET_GO[dialectOf(kind)]);
    }
    async down(): Promise<void> {}
  };

describeOnEach([], 'Tables of version 1 that others use', (kind) => {
  const key = kind === 'postgres' ? 'key' : '`key`';
  const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
  let database: TestDatabase;
  let db: DataSource;
  let others: DataSource;
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    others = await new DataSource(database.options).initialize();
    await makeVersion1(others, kind, 'key');
    await fill(others, kind, fillingOf(ROWS), SETTINGS.buckets);
    await others.query(
      `insert into outbox_ready (bucket, id, topic, type, ${key}, payload) values (99, ${id}, 't', 't', 'stray', '1')`,
    );
  });
  afterEach(async () => {
    if (db.isInitialized) await db.destroy();
    await others.destroy();
    await database.drop();
  });
  async function open(more: (new () => MigrationInterface)[] = [], options: object = {}): Promise<void> {
    const migrations = [...outboxMigrations(SETTINGS), ...more];
    db = await new DataSource({ ...database.options, migrations, ...options } as DataSourceOptions).initialize();
  }
  const READY = `insert into outbox_ready (bucket, id, topic, type, ${key}, payload) values (7, ${id}, 't', 't', 'k', '1')`; // the last bucket: the gap behind it is that of rows outside
  const DEDUP =
    kind === 'postgres'
      ? `insert into outbox_dedup (dedup_key, id) values (gen_random_uuid()::text, gen_random_uuid())`
      : `insert into outbox_dedup (dedup_key, id, bucket, claim) values (uuid(), uuid(), 0, unhex('00'))`;
  const PARKED = READY.replace('outbox_ready', 'outbox_parked');
  const LEASES = 'update outbox_leases set epoch = epoch where transport = -1';

  /** Transactions of another session, one after the other. */
  async function write(times: number): Promise<void> {
    for (let time = 0; time < times; time += 1)
      for (const sql of kind === 'postgres' ? [READY, DEDUP, LEASES] : [READY, DEDUP, LEASES, PARKED])
        await others.query(sql);
  }
  /** Whether a session runs a statement that begins so, and waits for a table. */
  async function isSeen(pattern: string, waits: boolean): Promise<boolean> {
    const text =
      kind === 'postgres'
        ? `select count(*) as n from pg_stat_activity where datname = current_database() and query ilike '${pattern}' and state = 'active' ${waits ? `and wait_event_type = 'Lock'` : ''}`
        : `select count(*) as n from information_schema.processlist where db = database() and info like '${pattern}' ${waits ? `and state = 'Waiting for table metadata lock'` : ''}`;
    const [row] = await others.query(text);
    return Number(row.n) > 0;
  }
  const version = async (): Promise<string> =>
    (await others.query(`select value from outbox_meta where name = 'version'`))[0].value;

  // MariaDB and MySQL change nothing of a large ready table.
  const tables = { ...(kind === 'postgres' ? { ready: READY } : {}), dedup: DEDUP, leases: LEASES };
  const cases = Object.entries(tables).flatMap(([table, sql]): [string, string, string, string][] => [
    ['up', table, sql, '3'],
    ['down', table, sql, '1'],
  ]);
  if (kind !== 'postgres') cases.push(['up', 'parked', PARKED, '3'], ['down', 'parked', PARKED, '2']);
  it.each(cases)('E6: %s waits for whoever writes into %s, and nobody behind it', async (way, table, sql, end) => {
    await open();
    if (way === 'down') {
      await db.runMigrations();
      if (end === '1') await db.undoLastMigration(); // to version 2
    }
    const writer = others.createQueryRunner();
    await writer.startTransaction();
    await writer.query(sql);
    const changing = way === 'up' ? db.runMigrations() : db.undoLastMigration();
    const beside = kind === 'postgres' && way === 'up' && table === 'dedup';
    const change = beside ? 'create index concurrently%' : kind === 'postgres' ? 'do $outbox$%' : 'alter table %';
    await until(() => isSeen(change, true));
    await write(10); // nobody ends the transaction that the change waits for, meanwhile
    expect(await version()).not.toBe(end);
    await writer.commitTransaction();
    await writer.release();
    await changing;
    expect(await version()).toBe(end);
  });

  it('E6: nothing stays locked until the migrations of the application behind it have run', async () => {
    await open([heldMigration(kind)]);
    const keeper = others.createQueryRunner();
    await keeper.query(HOLD[dialectOf(kind)]);
    const running = db.runMigrations();
    const isHeld = () => isSeen(kind === 'postgres' ? 'select pg_advisory_lock(%' : 'do get_lock(%', false);
    await until(isHeld);
    await write(3);
    expect(await isHeld()).toBe(true);
    await keeper.query(LET_GO[dialectOf(kind)]);
    await keeper.release();
    await running;
  });

  it('E6: a row in a bucket that nobody reads has its own one', async () => {
    await open();
    await db.runMigrations();
    const [stray] = await others.query(`select bucket from outbox_ready where ${key} = 'stray'`);
    expect(stray).toEqual({ bucket: bucketOf('stray', SETTINGS.buckets) });
  });

  if (kind === 'postgres') {
    it('E6: an index that was left half built is built anew', async () => {
      for (const name of ['a', 'b'])
        await others.query(`insert into outbox_dedup (dedup_key, id) values ('${name}', '${uuidV7()}'::uuid)`);
      await others.query(`update outbox_dedup set id = '${uuidV7()}' where dedup_key in ('a', 'b')`);
      const half = 'create unique index concurrently outbox_dedup_id on outbox_dedup (id)';
      await expect(others.query(half)).rejects.toThrow(/could not create unique index/);
      await open();
      await db.runMigrations();
      const [index] = await others.query(
        `select indisvalid as valid, indisunique as "unique" from pg_index where indexrelid = 'outbox_dedup_id'::regclass`,
      );
      expect(index).toEqual({ valid: true, unique: false });
    });

    it('E6: a pool of one connection is told what it needs', async () => {
      await open([], { poolSize: 1 });
      await expect(db.runMigrations()).rejects.toMatchObject({
        code: 'TIMEOUT',
        hint: expect.stringContaining(`migrationsTransactionMode to 'none'`),
      });
      expect(await version()).toBe('1');
      await db.runMigrations({ transaction: 'none' });
      expect(await version()).toBe('3');
    });
  } else {
    it('E6, I3: a large table goes without the limit, and each start says so', async () => {
      await open();
      await db.runMigrations();
      const store = openStore(db, { ...SETTINGS, coordination: 'buckets', onPublished: 'delete', options: OPTIONS });
      const limits = async (): Promise<string[]> =>
        (await store.setup.warnings()).filter((text) => text.includes('takes rows of any bucket'));
      const warnings = await limits();
      expect(warnings).toHaveLength(2);
      await others.query('delete from outbox_ready');
      for (const text of warnings) await others.query(/run: (.*)$/.exec(text)?.[1] as string);
      expect(await limits()).toEqual([]);
      await expect(others.query(READY.replace('(7,', '(99,'))).rejects.toThrow(/outbox_ready_limits/);
      await store.close();
    });

    it('E6: the look at a large table waits for no row, and locks none', async () => {
      await open();
      await others.query(`delete from outbox_ready where ${key} = 'stray'`);
      const writer = others.createQueryRunner();
      await writer.startTransaction();
      await writer.query(READY.replace('(7,', '(3,'));
      await db.runMigrations();
      await writer.commitTransaction();
      await writer.release();
      expect(await version()).toBe('3');
    });

    it.each(['inplace', 'instant'])('E6: the server adds no check with algorithm = %s: without a copy', async (way) => {
      await open();
      const check = `alter table outbox_ready add constraint probe check (bucket < 8), algorithm = ${way}`;
      await expect(others.query(check)).rejects.toMatchObject({ errno: 1845 });
      const shared = check.replace(way, 'copy, lock = none');
      await expect(others.query(shared)).rejects.toMatchObject({ errno: 1846 });
    });
  }
});
