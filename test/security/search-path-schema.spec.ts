import { DataSource, type DataSourceOptions } from 'typeorm';
import { outboxMigrations, outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { inProcess, OutboxCleaner, OutboxPartitionMaintainer } from '../../lib/index.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { HostileDatabases, type HostileDatabase } from '../support/hostile-functions.js';
import { toNext } from '../support/next-version.js';
import { openStore } from '../support/open-store.js';
import { RecordedHooks } from '../support/relay.js';
import { describeWith } from '../support/services.js';

const BUCKETS = 8;
const RETENTION = resolveOptions({ transports: { default: inProcess() } }).retention;
const OWN = { setup: 'check', schema: undefined, prefix: 'outbox_', pooler: undefined } as const;

/** A migrator's session is the application's: its search_path is anything, and it runs as the owner of the tables. */
describeWith('postgres', 'a migrator among functions, aggregates and operators that somebody else made', () => {
  const databases = new HostileDatabases();
  let database: HostileDatabase;
  const open: { destroy(): Promise<void> }[] = [];
  beforeAll(() => databases.start());
  beforeEach(async () => {
    database = await databases.next();
  });
  afterEach(async () => {
    for (const one of open.splice(0)) await one.destroy();
    await database.drop();
  });
  afterAll(() => databases.stop());

  const connect = async (options: Partial<DataSourceOptions> = {}): Promise<DataSource> => {
    const db = await new DataSource({ ...database.options, ...options } as DataSourceOptions).initialize();
    open.push(db);
    return db;
  };

  it('a bare name, and an operator for two types, are those of whoever made them', async () => {
    await database.invite();
    const bare = database.admin.query(`select convert_from('\\x61'::bytea, 'UTF8')`);
    await expect(bare).rejects.toThrow('code of a stranger');
    expect(await database.strangerRan()).toBe(true);
  });

  describe.each(['key', 'strict'] as const)('ordering %s', (ordering) => {
    const settings = { buckets: BUCKETS, ordering, coordination: 'buckets' } as const;
    const { up, down } = outboxSql('postgres', { buckets: BUCKETS, ordering });
    const dropping = outboxMigrations({ ...settings, dropUnpublished: true });
    /** As TypeORM does, without the questions of its own. */
    async function migrate(db: DataSource, way: 'up' | 'down', [Step] = dropping): Promise<void> {
      const runner = db.createQueryRunner();
      try {
        await runner.startTransaction();
        await new Step!()[way](runner);
        await runner.commitTransaction();
      } catch (error) {
        if (runner.isTransactionActive) await runner.rollbackTransaction();
        throw error;
      } finally {
        await runner.release();
      }
    }
    async function isRight(db: DataSource): Promise<void> {
      const store = openStore(db, { ...settings, onPublished: 'delete', options: OWN });
      try {
        await store.setup.check(settings);
        expect(await database.strangerRan()).toBe(false);
      } finally {
        await store.close();
      }
    }
    it('I1: makes the tables, and drops them: none of theirs runs', async () => {
      await database.invite();
      const db = await connect();
      await migrate(db, 'up');
      await isRight(db);
      await migrate(db, 'down');
      await db.query(up);
      await isRight(db);
      await db.query(down);
      const store = openStore(db, { ...settings, onPublished: 'delete', options: OWN });
      await store.setup.create(settings);
      await store.close();
      await isRight(db);
    });

    it('I1: makes an archive in partitions, looks after it, and converts one: none of theirs runs', async () => {
      await database.invite();
      const db = await connect();
      const partitioned = { buckets: BUCKETS, ordering, partitionedArchive: true } as const;
      await db.query(outboxSql('postgres', partitioned).up);
      const old = `select 0, 1, gen_random_uuid(), 't', 't', clock_timestamp() - interval '90 d'`;
      const publish = `insert into outbox_archive (bucket, seq, id, topic, type, published_at) ${old}`;
      await database.admin.query(
        `set search_path = pg_catalog, public; ${publish}; set search_path = public, strangers`,
      );
      const store = openStore(db, { ...settings, onPublished: 'archive', options: OWN });
      const { partitions } = resolveOptions({ transports: { default: inProcess() }, partitions: { period: 'month' } });
      const maintainer = new OutboxPartitionMaintainer(store, new RecordedHooks(), partitions);
      try {
        const first = await maintainer.runOnce({ retention: '200d' });
        expect(first).toMatchObject({ outcome: 'done', moved: 1, notDone: [] });
        expect((await maintainer.runOnce({ retention: '1h' })).dropped).not.toEqual([]);
        await new OutboxCleaner(store, new RecordedHooks(), RETENTION, false).runOnce({ before: new Date() });
        await isRight(db);
        await migrate(db, 'down');
        await migrate(db, 'up');
        await store.setup.transports(['default'], 'default');
        expect(await maintainer.convert()).toEqual({ outcome: 'done', why: null });
        expect(await maintainer.runOnce()).toMatchObject({ outcome: 'done', notDone: [] });
        await isRight(db);
        await db.query(down);
      } finally {
        await store.close();
      }
      expect(await database.strangerRan()).toBe(false);
    });

    it('I1: brings tables to the next version, and back: none of theirs runs', async () => {
      await database.invite();
      const db = await connect();
      await migrate(db, 'up');
      await migrate(db, 'up', toNext(settings));
      expect(await database.strangerRan()).toBe(false);
      await migrate(db, 'down', toNext(settings));
      await isRight(db);
    });

    it('I1: refuses to drop what is not published, with none of theirs', async () => {
      const db = await connect();
      await migrate(db, 'up');
      await db.query(`insert into outbox_messages (topic) values ('t')`);
      await database.invite();
      await expect(migrate(db, 'down', outboxMigrations(settings))).rejects.toMatchObject({ code: 'TABLES_NOT_EMPTY' });
      await isRight(db);
    });
  });
});
