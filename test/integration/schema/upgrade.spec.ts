import { DataSource, type DataSourceOptions, type MigrationInterface, type QueryRunner } from 'typeorm';
import type { Upgrade } from '../../../lib/data-layers/typeorm/migrations.js';
import type { SchemaDefinition } from '../../../lib/store/names.js';
import { NEXT, toNext } from '../../support/next-version.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach, dialectOf, type DatabaseKind } from '../../support/services.js';
import { until } from '../../support/until.js';

const SETTINGS = { buckets: 8 } as const;
/** Each as one process: a pool and connections of its own. */
const PROCESSES = 4;

/** A lock of the test's own. */
const HOLD = { postgres: 'select pg_advisory_lock(7)', mysql: `do get_lock(concat(database(), '.held'), 600)` };
const LET_GO = { postgres: 'select pg_advisory_unlock(7)', mysql: `do release_lock(concat(database(), '.held'))` };

/** What an application has of its own behind the outbox's migrations, in the same transaction of the migrator. */
const heldMigration = (kind: DatabaseKind) =>
  class Held1899999999999 implements MigrationInterface {
    async up(runner: QueryRunner): Promise<void> {
      await runner.query(HOLD[dialectOf(kind)]);
      await runner.query(LET_GO[dialectOf(kind)]);
    }
    async down(): Promise<void> {}
  };

describeOnEach([], 'An upgrade of the tables to the version after this one', (kind) => {
  const isPostgres = kind === 'postgres';
  const id = isPostgres ? 'gen_random_uuid()' : 'uuid()';
  const WRITES = {
    ready: `insert into outbox_ready (bucket, id, topic, type, payload) values (7, ${id}, 't', 't', '1')`,
    dedup: isPostgres
      ? `insert into outbox_dedup (dedup_key, id) values (gen_random_uuid()::text, gen_random_uuid())`
      : `insert into outbox_dedup (dedup_key, id, bucket, claim) values (uuid(), uuid(), 0, unhex('00'))`,
  } as const;
  let harness: Harness;
  let others: DataSource;
  let migrators: DataSource[];
  let writer: QueryRunner | undefined;
  beforeEach(async () => {
    harness = await createHarness(kind, SETTINGS);
    others = harness.dataSource;
    migrators = [];
  });
  afterEach(async () => {
    if (writer?.isTransactionActive) await writer.rollbackTransaction(); // a migrator may wait for it still
    await writer?.release();
    writer = undefined;
    for (const each of migrators) if (each.isInitialized) await each.destroy();
    await harness.close();
  });
  function migratorOf(migrations: readonly unknown[] = toNext(SETTINGS), options: object = {}): DataSource {
    const migrator = new DataSource({ ...harness.database.options, migrations, ...options } as DataSourceOptions);
    migrators.push(migrator);
    return migrator;
  }
  const open = (...of: Parameters<typeof migratorOf>): Promise<DataSource> => migratorOf(...of).initialize();
  const version = async (): Promise<string> =>
    (await others.query(`select value from outbox_meta where name = 'version'`))[0].value;
  /** Of the two things that the version has, how many are there; an index that is not valid is none. */
  async function parts(): Promise<number> {
    const [row] = await others.query(
      isPostgres
        ? `select (select count(*) from information_schema.columns where table_schema = current_schema() and table_name = 'outbox_ready' and column_name = 'next')
           + (select count(*) from pg_index where indexrelid = to_regclass('outbox_dedup_next') and indisvalid) as n`
        : `select (select count(*) from information_schema.columns where table_schema = database() and table_name = 'outbox_ready' and column_name = 'next')
           + (select count(distinct index_name) from information_schema.statistics where table_schema = database() and table_name = 'outbox_dedup' and index_name = 'next') as n`,
    );
    return Number(row.n);
  }
  const isNext = async (): Promise<void> => expect([await version(), await parts()]).toEqual(['2', 2]);
  const isBefore = async (): Promise<void> => expect([await version(), await parts()]).toEqual(['1', 0]);
  /** Whether a session runs a statement that begins so, and waits for a table. */
  async function isSeen(pattern: string, waits: boolean): Promise<boolean> {
    const text = isPostgres
      ? `select count(*) as n from pg_stat_activity where datname = current_database() and query ilike '${pattern}' and state = 'active' ${waits ? `and wait_event_type = 'Lock'` : ''}`
      : `select count(*) as n from information_schema.processlist where db = database() and info like '${pattern}' ${waits ? `and state = 'Waiting for table metadata lock'` : ''}`;
    const [row] = await others.query(text);
    return Number(row.n) > 0;
  }
  /** Whoever waits for a minute would wait for ever. */
  async function write(times: number): Promise<void> {
    const statements = isPostgres ? [`set local lock_timeout = '60s'`] : [];
    for (let time = 0; time < times; time += 1)
      await others.transaction(async (manager) => {
        for (const sql of [...statements, ...Object.values(WRITES)]) await manager.query(sql);
      });
  }

  it('B11, U6: relays and writers of this release go on, both ways; one that starts beside newer tables says so', async () => {
    const transport = new ScriptedTransport();
    const { dispatcher, store } = harness.relay({ default: transport });
    await dispatcher.start();
    const waiting = await harness.enqueue([{ key: 'later', delay: 3_600_000 }]);
    const publishes = async (): Promise<void> => {
      const [sent] = await harness.enqueue([{ key: 'k' }]);
      await transport.until(() => transport.published.some((message) => message.id === sent));
    };
    const db = await open();
    await publishes();
    await db.runMigrations();
    await isNext();
    await publishes();
    await expect(store.setup.check(harness.options)).rejects.toMatchObject({
      code: 'SCHEMA_MISMATCH',
      message: expect.stringContaining('The tables have version 2, this release needs 1.'),
      hint: expect.stringContaining('They are of a later release'),
    });
    await expect(store.setup.create(harness.options)).rejects.toMatchObject({ code: 'SCHEMA_MISMATCH' });
    await isNext();
    await publishes();
    await db.undoLastMigration();
    await isBefore();
    await publishes();
    await store.setup.check(harness.options);
    await others.query(`update outbox_meta set value = '0' where name = 'version'`);
    await expect(store.setup.check(harness.options)).rejects.toMatchObject({
      message: expect.stringContaining('The tables have version 0, this release needs 1.'),
      hint: expect.stringContaining('Run the migrations of outboxMigrations()'),
    });
    expect(await others.query('select id from outbox_parked')).toEqual(waiting.map((each) => ({ id: each })));
  });

  it('E6: one that failed half way is continued, and one that is done is not done twice', async () => {
    const dialect = dialectOf(kind);
    const fails: Upgrade = {
      ...NEXT,
      script: {
        ...NEXT.script,
        [dialect]: (of: SchemaDefinition) => ({ up: [...NEXT.script[dialect](of).up, 'no sql'], down: [] }),
      },
    };
    await expect((await open(toNext(SETTINGS, fails))).runMigrations()).rejects.toThrow(/syntax/);
    expect([await version(), await parts()]).toEqual(['1', 2]);
    const db = await open();
    await db.runMigrations();
    await isNext();
    const [Again] = toNext(SETTINGS);
    const runner = db.createQueryRunner();
    await new Again!().up(runner);
    await runner.release();
    await isNext();
    await db.undoLastMigration();
    await isBefore();
  });

  it('I11: several at once all go on, and the tables are right', async () => {
    await (await open()).showMigrations(); // TypeORM's own table: its race is TypeORM's
    const starting = Array.from({ length: PROCESSES }, () => migratorOf(undefined, { migrationsRun: true }));
    const results = await Promise.allSettled(starting.map((each) => each.initialize()));
    expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
    await isNext();
  });

  const cases = Object.entries(WRITES).flatMap(([table, sql]): [string, string, string][] => [
    ['up', table, sql],
    ['down', table, sql],
  ]);
  it.each(cases)('E6: %s waits for whoever writes into %s, and nobody behind it', async (way, _table, sql) => {
    const db = await open();
    if (way === 'down') await db.runMigrations();
    writer = others.createQueryRunner();
    await writer.startTransaction();
    await writer.query(sql);
    const changing = way === 'up' ? db.runMigrations() : db.undoLastMigration();
    await until(() => isSeen(isPostgres ? 'do $outbox$%' : 'alter table %', true));
    await write(5); // nobody ends the transaction that the change waits for, meanwhile
    expect(await version()).toBe(way === 'up' ? '1' : '2');
    await writer.commitTransaction();
    await changing;
    await (way === 'up' ? isNext() : isBefore());
  });

  it('E6: nothing stays locked until the migrations of the application behind it have run', async () => {
    const db = await open([...toNext(SETTINGS), heldMigration(kind)]);
    const keeper = others.createQueryRunner();
    await keeper.query(HOLD[dialectOf(kind)]);
    const running = db.runMigrations();
    const isHeld = () => isSeen(isPostgres ? 'select pg_advisory_lock(%' : 'do get_lock(%', false);
    await until(isHeld);
    await write(3);
    expect(await isHeld()).toBe(true);
    await keeper.query(LET_GO[dialectOf(kind)]);
    await keeper.release();
    await running;
    await isNext();
  });

  if (!isPostgres) return;

  it('E6: a pool of one connection is told what it needs', async () => {
    const db = await open(undefined, { poolSize: 1 });
    await expect(db.runMigrations()).rejects.toMatchObject({
      code: 'TIMEOUT',
      hint: expect.stringContaining(`migrationsTransactionMode to 'none'`),
    });
    await isBefore();
    await db.runMigrations({ transaction: 'none' });
    await isNext();
  });
});
