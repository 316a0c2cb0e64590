import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OutboxStore } from '../../../lib/store/outbox-store.js';
import { outboxMigrations, outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { openStore } from '../../support/open-store.js';
import { DATABASES, describeWith, dialectOf } from '../../support/services.js';
import { fill, fillingOf, makeVersion } from '../../support/version-1.js';

const BUCKETS = 8;
const ROWS = 1_000;
const ACTION = { action: 'requeue', actor: 'a', filter: '{}' } as const;

describe.each(DATABASES)('tables of version 2, with rows in them', (kind) => {
  describe.each(['key', 'strict'] as const)('ordering: %s', (ordering) => {
    describeWith(kind, kind, () => {
      const settings = { buckets: BUCKETS, ordering, coordination: 'buckets' } as const;
      const options = {
        setup: 'none',
        schema: undefined,
        prefix: 'outbox_',
        poolSize: 2,
        preparedStatements: true,
      } as const;
      let database: TestDatabase;
      let db: DataSource;
      let store: OutboxStore;
      beforeEach(async () => {
        database = await createTestDatabase(kind);
        const migrations = outboxMigrations({ buckets: BUCKETS, ordering });
        db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
        await makeVersion(2, db, kind, ordering);
        store = openStore(db, { ...settings, onPublished: 'delete', options });
        await store.registerTransports(['default'], 'default');
        await fill(db, kind, fillingOf(ROWS), BUCKETS);
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
      const states = (): Promise<unknown> =>
        db.query('select state, count(*) as n from outbox_messages group by state order by 1');
      const hasAudit = async (): Promise<boolean> =>
        (
          await db.query(
            `select 1 from information_schema.tables where table_name = 'outbox_audit' and table_schema = ${kind === 'postgres' ? 'current_schema()' : 'database()'}`,
          )
        ).length > 0;
      const acts = async (): Promise<void> => {
        await store.check(settings);
        const audit = (await store.bulk?.begin(ACTION)) as string;
        expect(await store.bulk?.audit(null, 10)).toMatchObject([{ id: audit, ...ACTION, outcome: null }]);
      };

      it('I3: are refused by a start, and by what operators do, with the step; it makes the audit and changes no message', async () => {
        const before = await states();
        await expect(store.check(settings)).rejects.toThrow(/have version 2, this release needs 3/);
        const missing = {
          code: 'SCHEMA_MISSING',
          message: expect.stringMatching(/no table .*outbox_audit.*OutboxVersion3/),
        };
        await expect(store.bulk?.begin(ACTION)).rejects.toMatchObject(missing);
        await expect(store.bulk?.audit(null, 1)).rejects.toMatchObject(missing);
        expect(await store.cleanAudit?.(0, 1)).toBe(0);
        await db.runMigrations();
        await acts();
        expect(await states()).toEqual(before);
        await db.undoLastMigration();
        expect(await hasAudit()).toBe(false);
        await expect(store.check(settings)).rejects.toThrow(/have version 2, this release needs 3/);
        expect(await states()).toEqual(before);
        await db.runMigrations();
        await acts();
      });

      it('I3: are upgraded by the script, which may run again, and by setup "create"', async () => {
        const { up, back } = outboxSql(dialectOf(kind), { buckets: BUCKETS, ordering });
        await script(up);
        await acts();
        await script(up);
        expect(await store.bulk?.audit(null, 10)).toHaveLength(1);
        await script(back);
        expect(await hasAudit()).toBe(false);
        await store.create(settings);
        await acts();
      });

      it('I3: what of the audit differs is named by the check with the statement that mends it', async () => {
        await db.runMigrations();
        await db.query('alter table outbox_audit drop column actor');
        await expect(store.check(settings)).rejects.toThrow(
          /outbox_audit.*actor.* is missing.*\(run: alter table .*outbox_audit.* add/,
        );
        await db.query('drop table outbox_audit');
        await expect(store.check(settings)).rejects.toThrow(
          /outbox_audit.* (is|are) missing|Tables are missing: .*outbox_audit/,
        );
      });
    });
  });
});
