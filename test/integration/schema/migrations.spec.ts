// @tier fast
import { DataSource, type DataSourceOptions } from 'typeorm';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { openStore } from '../../support/open-store.js';
import {
  outboxEntities,
  outboxMigrations,
  outboxSql,
  type OutboxMessageRow,
} from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, runScript, type TestDatabase } from '../../support/databases.js';
import { newMessage } from '../../support/relay.js';
import { describeWith, DATABASES, dialectOf } from '../../support/services.js';

const SETTINGS = { buckets: 9, ordering: 'key', coordination: 'buckets' } as const;
const INSERT = {
  postgres: `insert into a_messages (topic, payload) values ('t', '{}')`,
  mysql: `insert into a_ready (id, bucket, topic, type, payload) values (uuid(), 1, 't', 't', '{}')`,
};

describe.each(DATABASES)('migrations', (kind) => {
  describeWith(kind, kind, () => {
    let database: TestDatabase;
    let db: DataSource;
    const [entity] = outboxEntities({ prefix: 'a_' });
    beforeAll(async () => {
      database = await createTestDatabase(kind);
      const migrations = [
        ...outboxMigrations({ prefix: 'a_', buckets: 9 }),
        ...outboxMigrations({ prefix: 'b_', buckets: 9 }),
      ];
      db = await new DataSource({
        ...database.options,
        migrations,
        entities: [entity],
      } as DataSourceOptions).initialize();
    });
    afterAll(async () => {
      await db.destroy();
      await database.drop();
    });
    /** As one reverts who means to drop what is not published. */
    async function revertAll(prefix: string): Promise<void> {
      const runner = db.createQueryRunner();
      const migrations = outboxMigrations({ prefix, buckets: 9, dropUnpublished: true });
      for (const Each of [...migrations].reverse()) await new Each().down(runner);
      await runner.release();
      await db.query(`delete from migrations where name like '%${prefix}179%'`);
    }
    const check = async (prefix: string): Promise<void> => {
      const options = { setup: 'check', schema: undefined, prefix, pooler: undefined } as const;
      const store = openStore(db, { ...SETTINGS, onPublished: 'delete', options });
      await store.setup.check(SETTINGS).finally(() => store.close());
    };

    it('makes the tables of every outbox, knows when they are there, and takes them away with their rows', async () => {
      await expect(check('a_')).rejects.toMatchObject({ code: 'SCHEMA_MISSING' });
      expect((await db.runMigrations()).map(({ name }) => name)).toEqual([
        'OutboxTables__a_1795219200000',
        'OutboxTables__b_1795219200000',
      ]);
      await check('a_');
      await check('b_');
      await db.query(INSERT[dialectOf(kind)]);
      const rows = await db.getRepository<OutboxMessageRow>(entity as never).find();
      expect(rows).toMatchObject([{ topic: 't', state: 'ready', attempts: 0, lastError: null }]);
      expect(await db.runMigrations()).toEqual([]);
      const [Again] = outboxMigrations({ prefix: 'a_', buckets: 9 });
      const runner = db.createQueryRunner();
      if (Again !== undefined) await new Again().up(runner); // a second time changes nothing
      await runner.release();
      expect(await db.getRepository<OutboxMessageRow>(entity as never).count()).toBe(1);
      await check('a_');
      await db.undoLastMigration(); // of b_, which is empty
      await revertAll('a_');
      await expect(check('a_')).rejects.toMatchObject({ code: 'SCHEMA_MISSING' });
    });

    it('shows a message that is being sent as what it was before', async () => {
      await db.runMigrations();
      const options = { setup: 'check', schema: undefined, prefix: 'a_', pooler: undefined } as const;
      const store = openStore(db, { ...SETTINGS, onPublished: 'delete', options });
      await store.setup.transports(['default'], 'default');
      const leases = await store.leases.acquire({ owner: 'o', leaseMs: 60_000, transport: 0, limit: 9 });
      await db.transaction((manager) =>
        store.writer.insert(transactionExecutor(manager.queryRunner as never), [
          newMessage({ key: null, delay: 0, payload: Buffer.from('1') }, 9),
          newMessage({ key: 'k', delay: 0, payload: Buffer.from('2') }, 9),
        ]),
      );
      const buckets = leases.map(({ bucket }) => bucket);
      const due = (await store.parked.due(0, buckets, 10)).rows;
      const request = { owner: 'o', transport: 0, leases, due, keys: [], perKey: 1 };
      const { messages } = await store.parked.take(request).finally(() => store.close());
      expect(messages).toHaveLength(2);
      const rows = await db.getRepository<OutboxMessageRow>(entity as never).find({ order: { seq: 'asc', id: 'asc' } });
      // With a key it has joined the key's order first, and waits in it.
      expect(rows.map(({ key, state }) => [key, state])).toEqual([
        [null, 'scheduled'],
        ['k', 'waiting'],
      ]);
      await revertAll('a_');
      await revertAll('b_');
    });

    it('U2: the first one is not reverted while messages are not published, and says how many', async () => {
      await db.runMigrations();
      await db.query(INSERT[dialectOf(kind)]);
      const state = (n: number): string =>
        kind === 'postgres'
          ? `insert into a_parked (bucket, id, topic, type, state) values (1, gen_random_uuid(), 't', 't', ${n})`
          : `insert into a_parked (bucket, id, topic, type, state, payload) values (1, uuid(), 't', 't', ${n}, '1')`;
      for (const n of [1, 2, 3, 4, 4]) await db.query(state(n));
      await db.undoLastMigration(); // the tables of b_
      const refusal = {
        code: 'TABLES_NOT_EMPTY',
        message: expect.stringMatching(/: 1 ready, 1 scheduled, 1 waiting, 1 blocked, 2 dead\..*dropUnpublished: true/),
      };
      await expect(db.undoLastMigration()).rejects.toMatchObject(refusal);
      const counts = async (table: string) => Number((await db.query(`select count(*) as n from ${table}`))[0].n);
      expect([await counts('a_ready'), await counts('a_parked')]).toEqual([1, 5]);
      await db.query('delete from a_ready');
      await expect(db.undoLastMigration()).rejects.toMatchObject({ code: 'TABLES_NOT_EMPTY' });
      await db.query('delete from a_parked');
      await db.undoLastMigration();
      await expect(check('a_')).rejects.toMatchObject({ code: 'SCHEMA_MISSING' });
    });

    it('has the same as text', async () => {
      const { up, down } = outboxSql(kind === 'postgres' ? 'postgres' : 'mysql', { prefix: 'c_', buckets: 9 });
      await runScript(kind, db, up);
      await check('c_');
      await runScript(kind, db, down);
      await expect(check('c_')).rejects.toMatchObject({ code: 'SCHEMA_MISSING' });
    });
  });
});
