import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OutboxStore } from '../../../lib/index.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { openStore } from '../../support/open-store.js';
import { outboxMigrations, outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, runScript, type TestDatabase } from '../../support/databases.js';
import { newMessage } from '../../support/relay.js';
import { describeWith, DATABASES, dialectOf } from '../../support/services.js';

const SETTINGS = { buckets: 32, coordination: 'buckets', onPublished: 'delete' } as const;
const OURS = {
  postgres: `select count(*) as n from (select relname from pg_class where relname like 'a\\_%' and relnamespace = 'public'::regnamespace
    union all select proname from pg_proc where proname like 'a\\_%') x`,
  mysql: `select count(*) as n from information_schema.tables where table_schema = database() and table_name like 'a\\_%'`,
};

describe.each(DATABASES)('migrations of a strict order', (kind) => {
  describeWith(kind, kind, () => {
    let database: TestDatabase;
    let db: DataSource;
    const stores: OutboxStore[] = [];
    beforeAll(async () => {
      database = await createTestDatabase(kind);
      const migrations = outboxMigrations({ prefix: 'a_', ordering: 'strict', dropUnpublished: true });
      db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
    });
    afterAll(async () => {
      for (const store of stores) await store.close();
      await db.destroy();
      await database.drop();
    });
    const open = (ordering: 'key' | 'strict' | 'global', prefix: string): OutboxStore => {
      const options = { setup: 'check', schema: undefined, prefix, pooler: undefined } as const;
      const store = openStore(db, { ...SETTINGS, ordering, options });
      stores.push(store);
      return store;
    };
    const enqueue = (store: OutboxStore, text: string): Promise<unknown> =>
      db.transaction((manager) =>
        store.writer.insert(transactionExecutor(manager.queryRunner as never), [
          newMessage({ key: 'k', payload: Buffer.from(text) }),
        ]),
      );
    const run = (sql: string): Promise<void> => runScript(kind, db, sql);
    const dialect = kind === 'postgres' ? 'postgres' : 'mysql';

    it('up, up again with rows, and down leave nothing behind', async () => {
      const settings = { ...SETTINGS, ordering: 'strict' } as const;
      const store = open('strict', 'a_');
      await expect(store.setup.check(settings)).rejects.toMatchObject({ code: 'SCHEMA_MISSING' });
      await db.runMigrations();
      await store.setup.check(settings);
      await enqueue(store, '1');
      await run(outboxSql(dialect, { prefix: 'a_', ordering: 'strict' }).up);
      await enqueue(store, '2');
      await store.setup.check(settings);
      const rows = await db.query(`select id from a_ready`);
      expect(rows).toHaveLength(2);
      for (const _version of db.migrations) await db.undoLastMigration();
      expect(Number((await db.query(OURS[dialectOf(kind)]))[0].n)).toBe(0);
    });

    it('an outbox in the order of the inserts becomes strict as the error says, and keeps its rows', async () => {
      await run(outboxSql(dialect, { prefix: 'b_' }).up);
      const [before, strict] = [open('key', 'b_'), open('strict', 'b_')];
      await enqueue(before, '1');
      const settings = { ...SETTINGS, ordering: 'strict' } as const;
      const update = `update b_meta set value = 'strict' where name = 'ordering'`;
      await expect(strict.setup.check(settings)).rejects.toMatchObject({
        code: 'SCHEMA_MISMATCH',
        message: expect.stringContaining('run the up of outboxSql() with the new settings'),
      });
      await db.query(update); // alone it is not enough
      await expect(strict.setup.check(settings)).rejects.toMatchObject({ code: 'SCHEMA_MISMATCH' });
      await run(outboxSql(dialect, { prefix: 'b_', ordering: 'strict' }).up);
      await strict.setup.check(settings);
      await enqueue(strict, '2');
      const positions = Array.from({ length: 32 }, (_, bucket) => ({ bucket, after: '0' }));
      const { messages } = await strict.ready.fetch({ transport: 0, positions, perBucket: 10, limit: 10 });
      expect(messages.map(({ payload }) => String(payload))).toEqual(['1', '2']);
      await run(outboxSql(dialect, { prefix: 'b_', ordering: 'strict' }).down);
    });

    it('an order per key becomes a global one as the error says: what plain SQL inserts is where a relay looks for it', async () => {
      await run(outboxSql(dialect, { prefix: 'c_' }).up);
      const global = open('global', 'c_');
      const settings = { ...SETTINGS, ordering: 'global' } as const;
      const words =
        kind === 'postgres'
          ? /drain until no message is left.*run the up of outboxSql\(\) with the new settings/
          : /move to new tables/;
      await expect(global.setup.check(settings)).rejects.toThrow(words);
      if (kind !== 'postgres') return run(outboxSql(dialect, { prefix: 'c_' }).down);
      await run(outboxSql(dialect, { prefix: 'c_', ordering: 'global' }).up);
      await db.query(`update c_meta set value = 'global' where name = 'ordering'`);
      await global.setup.check(settings);
      for (let n = 0; n < 5; n += 1)
        await db.query(`insert into c_messages (topic, type, key, payload) values ('t', 't', 'k${n}', 'x')`);
      expect(await db.query('select distinct bucket from c_ready')).toEqual([{ bucket: 0 }]);
      await run(outboxSql(dialect, { prefix: 'c_', ordering: 'global' }).down);
    });
  });
});
