import { DataSource, type DataSourceOptions, type QueryRunner } from 'typeorm';
import { connectionSchema } from '../../../lib/data-layers/typeorm/dialect.js';
import { openStore } from '../../support/open-store.js';
import { lockName, oneAtATime } from '../../../lib/store/mysql/schema/lock.js';
import { outboxMigrations } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const SETTINGS = { buckets: 8, ordering: 'key', coordination: 'buckets' } as const;

describeOnMysqlFamily('the lock of whoever makes tables', (kind) => {
  let database: TestDatabase;
  let db: DataSource;
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    const migrations = outboxMigrations(SETTINGS);
    db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
  });
  afterEach(async () => {
    await db.destroy();
    await database.drop();
  });
  const tables = (): { schema: string; prefix: string } => ({
    schema: connectionSchema(db) as string,
    prefix: 'outbox_',
  });
  const isFree = async (): Promise<boolean> => {
    const [row] = await db.query('select is_free_lock(?) as free', [lockName(tables())]);
    return Number(row.free) === 1;
  };
  const asking = (runner: QueryRunner) => async (sql: string, values: readonly unknown[]) =>
    Object.values((await runner.query(sql, [...values]))[0])[0];

  it('I11: is free when a migration failed, or setup "create"', async () => {
    await db.query('create table outbox_messages (id int)'); // where the view is to be
    await expect(db.runMigrations()).rejects.toThrow(/not (of type )?.?VIEW/i);
    expect(await isFree()).toBe(true);
    const options = {
      setup: 'create',
      schema: undefined,
      prefix: 'outbox_',
      pooler: undefined,
    } as const;
    const store = openStore(db, { ...SETTINGS, onPublished: 'delete', options });
    await expect(store.setup.create(SETTINGS)).rejects.toThrow(/not (of type )?.?VIEW/i);
    expect(await isFree()).toBe(true);
    await store.close();
  });

  it('I11: is waited for in bounded time, and the error names who holds it', async () => {
    const [one, other] = [db.createQueryRunner(), db.createQueryRunner()];
    const [{ id }] = await one.query('select connection_id() as id');
    await oneAtATime(asking(one), tables(), async () => {
      const late = oneAtATime(asking(other), tables(), () => Promise.resolve('made'), 1);
      await expect(late).rejects.toMatchObject({
        code: 'TIMEOUT',
        message: expect.stringContaining(`${tables().schema} with prefix outbox_ for 1 s.`),
      });
      await expect(late).rejects.toThrow(`is connection ${id} of the server`);
      const elsewhere = { ...tables(), prefix: 'other_' };
      expect(await oneAtATime(asking(other), elsewhere, () => Promise.resolve('made'), 1)).toBe('made');
    });
    expect(await oneAtATime(asking(other), tables(), () => Promise.resolve('made'), 1)).toBe('made');
    await one.release();
    await other.release();
  });

  it('I11: has a name that the server takes, however long those of the database and the prefix are', async () => {
    const long = { schema: 'd'.repeat(63), prefix: `${'p'.repeat(42)}_` };
    expect(lockName(tables())).toContain(tables().schema);
    expect(lockName(long)).not.toBe(lockName({ ...long, prefix: `${'p'.repeat(41)}__` }));
    const runner = db.createQueryRunner();
    expect(await oneAtATime(asking(runner), long, () => Promise.resolve('made'), 1)).toBe('made');
    await runner.release();
  });
});
