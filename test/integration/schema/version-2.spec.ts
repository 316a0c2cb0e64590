import { DataSource, type DataSourceOptions } from 'typeorm';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { openStore } from '../../support/open-store.js';
import type { OutboxStore } from '../../../lib/store/outbox-store.js';
import { outboxMigrations, outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { newMessage } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { makeVersion1 } from '../../support/version-1.js';

const BUCKETS = 8;

describe.each(DATABASES)('tables of version 1, with rows in them', (kind) => {
  describe.each(['key', 'strict'] as const)('ordering: %s', (ordering) => {
    describeWith(kind, kind, () => {
      const dialect = kind === 'postgres' ? 'postgres' : 'mysql';
      const settings = { buckets: BUCKETS, ordering, coordination: 'buckets' } as const;
      let database: TestDatabase;
      let db: DataSource;
      let store: OutboxStore;
      beforeEach(async () => {
        database = await createTestDatabase(kind);
        const migrations = outboxMigrations({ buckets: BUCKETS, ordering });
        db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
        await makeVersion1(db, kind, ordering);
        const options = {
          setup: 'check',
          schema: undefined,
          prefix: 'outbox_',
          poolSize: 2,
          preparedStatements: true,
        } as const;
        store = openStore(db, { ...settings, onPublished: 'delete', options });
        await store.setup.registerTransports(['default'], 'default');
        await fill();
      });
      afterEach(async () => {
        await store.close();
        await db.destroy();
        await database.drop();
      });
      const script = async (sql: string): Promise<void> => {
        if (kind === 'postgres') await db.query(sql);
        else for (const text of sql.split(/;\n\n?(?=\S|$)/)) if (text.trim() !== '') await db.query(text);
      };
      const key = kind === 'postgres' ? 'key' : '`key`';
      const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
      const ONE = `insert into outbox_ready (bucket, id, topic, type, ${key}, payload)`;
      /** One as the library writes it, one in a bucket that nobody reads, and on PostgreSQL two that nobody could read. */
      async function fill(): Promise<void> {
        await db.transaction((manager) =>
          store.writer.insert(transactionExecutor(manager), [
            newMessage({ key: 'a', payload: Buffer.from('1') }, BUCKETS),
          ]),
        );
        await db.query(`${ONE} values (99, ${id}, 't', 't', 'a', '2')`);
        if (kind !== 'postgres') return;
        await db.query(
          `insert into outbox_ready (bucket, id, topic, type, key, headers) values (1, gen_random_uuid(), 'large', 't', 'b', repeat('x', 3000000))`,
        );
        await db.query(
          `insert into outbox_parked (bucket, id, topic, type, state, due_at, options) values (1, gen_random_uuid(), 'large', 't', 1, now(), repeat('x', 3000000))`,
        );
      }
      const published = async (): Promise<string[]> => {
        const positions = Array.from({ length: BUCKETS }, (_, bucket) => ({ bucket, after: '0' }));
        const { messages } = await store.ready.fetch({ transport: 0, positions, perBucket: 10, limit: 10 });
        return messages.map(({ payload }) => String(payload));
      };
      const looksRight = async (): Promise<void> => {
        await store.setup.check(settings);
        expect(await published()).toEqual(['1', '2']);
        await expect(db.query(`${ONE} values (99, ${id}, 't', 't', 'a', '3')`)).rejects.toThrow(/outbox_ready_limits/);
        if (kind !== 'postgres') return;
        const dead = await db.query(`select topic, last_error from outbox_messages where state = 'dead'`);
        expect(dead).toEqual(Array(2).fill({ topic: 'large', last_error: expect.stringContaining('larger than') }));
      };

      it('I3: are refused by a start with the step, which upgrades them in place; the way back is one of the version before', async () => {
        await expect(store.setup.check(settings)).rejects.toMatchObject({
          code: 'SCHEMA_MISMATCH',
          message: expect.stringMatching(
            /have version 1, this release needs 3.*Run the migrations of outboxMigrations/,
          ),
        });
        await db.runMigrations();
        await looksRight();
        for (const _ of ['3', '2']) await db.undoLastMigration();
        await expect(store.setup.check(settings)).rejects.toMatchObject({ code: 'SCHEMA_MISMATCH' });
        expect(await published()).toEqual(['1', '2']);
        await db.query(`${ONE} values (99, ${id}, 't', 't', 'a', '3')`); // as it was
        await db.query('delete from outbox_ready where bucket = 99');
        await db.runMigrations();
        await looksRight();
      });

      it('I3: are upgraded by the script, which may run again, and by setup "create"', async () => {
        await script(outboxSql(dialect, { buckets: BUCKETS, ordering }).up);
        await looksRight();
        await script(outboxSql(dialect, { buckets: BUCKETS, ordering }).up);
        await looksRight();
        await script(outboxSql(dialect, { buckets: BUCKETS, ordering }).back);
        await expect(store.setup.check(settings)).rejects.toThrow(/version 2, this release needs 3/);
        await script(outboxSql(dialect, { buckets: BUCKETS, ordering }).up);
        await looksRight();
        await db.undoLastMigration().catch(() => undefined); // none has run: nothing to revert
        await db.query(`update outbox_meta set value = '1' where name = 'version'`);
        for (const table of ['ready', 'parked'])
          await db.query(`alter table outbox_${table} drop constraint outbox_${table}_limits`);
        await db.query(kind === 'postgres' ? 'drop index outbox_dedup_id' : 'alter table outbox_dedup drop key by_id');
        await store.setup.create(settings);
        await looksRight();
      });
    });
  });
});
