import { DataSource, type DataSourceOptions } from 'typeorm';
import type { EditStore, RowVersion } from '../../../lib/store/edit/edit-store.js';
import { revisionOf } from '../../../lib/store/edit/revision.js';
import type { OutboxStore } from '../../../lib/store/outbox-store.js';
import { outboxMigrations, outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { openStore } from '../../support/open-store.js';
import { DATABASES, describeWith, dialectOf } from '../../support/services.js';
import { until } from '../../support/until.js';
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
        await store.setup.registerTransports(['default'], 'default');
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
        await store.setup.check(settings);
        const audit = (await store.bulk?.begin(ACTION)) as string;
        expect(await store.bulk?.audit(null, 10)).toMatchObject([{ id: audit, ...ACTION, outcome: null }]);
      };

      it('I3: are refused by a start, and by what operators do, with the step; it makes the audit and changes no message', async () => {
        const before = await states();
        await expect(store.setup.check(settings)).rejects.toThrow(/have version 2, this release needs 3/);
        const missing = {
          code: 'SCHEMA_MISSING',
          message: expect.stringMatching(/no table .*outbox_audit.*OutboxVersion3/),
        };
        await expect(store.bulk?.begin(ACTION)).rejects.toMatchObject(missing);
        await expect(store.bulk?.audit(null, 1)).rejects.toMatchObject(missing);
        const edits = store.edits as EditStore;
        await expect(edits.kept({ before: null, limit: 1, previewBytes: 0 })).rejects.toMatchObject(missing);
        const [{ parked_id: id }] = (await db.query('select parked_id from outbox_parked')) as [{ parked_id: string }];
        const revision = revisionOf((await edits.version(String(id))) as RowVersion);
        const edit = { rowId: String(id), revision, changes: { topic: 'x' }, requeue: false, actor: 'a', filter: '{}' };
        await expect(edits.edit(edit)).rejects.toMatchObject(missing);
        expect(await store.cleaner.cleanAudit?.(0, 1)).toBe(0);
        const action = { scope: { transport: 0, topic: null, key: null }, actor: 'a', filter: '{}' };
        await expect(store.pauses?.pause({ ...action, reason: 'r' })).rejects.toMatchObject(missing);
        expect(await store.pauses?.list()).toEqual([]);
        const instance = { owner: 'o', transports: [0], info: '' };
        expect(await store.leases.beat(instance, 60_000)).toMatchObject({ instances: [{ owner: 'o' }], pauses: [] });
        expect(await store.leases.living()).toMatchObject({ instances: [{ owner: 'o' }], pauses: [] });
        await db.runMigrations();
        await acts();
        expect(await states()).toEqual(before);
        await store.pauses?.pause({ ...action, reason: 'r' });
        await until(async () => (await store.leases.living()).pauses?.length === 1); // within so many heartbeats
        await db.undoLastMigration();
        expect(await hasAudit()).toBe(false);
        await expect(store.setup.check(settings)).rejects.toThrow(/have version 2, this release needs 3/);
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
        await store.setup.create(settings);
        await acts();
      });

      if (kind !== 'postgres') {
        const isUnique = async (): Promise<boolean> => {
          const rows = (await db.query(
            `select non_unique as n, column_name as c from information_schema.statistics where table_schema = database()
            and table_name = 'outbox_parked' and index_name = 'by_id' order by seq_in_index`,
          )) as { n: unknown; c: string }[];
          expect(rows.map(({ c }) => c)).toEqual(['id', 'transport']);
          return rows.every(({ n }) => Number(n) === 0);
        };
        const ONE = `insert into outbox_parked (id, state, seq, topic, payload) values ('01a', 4, ?, 't', '1')`;

        it('I3: the index of ids is unique no more; the way back is refused while copies wait, and changes nothing', async () => {
          expect(await isUnique()).toBe(true);
          await db.query(ONE, [1]);
          await expect(db.query(ONE, [2])).rejects.toMatchObject({ errno: 1062 });
          await db.runMigrations();
          expect(await isUnique()).toBe(false);
          await db.query(ONE, [2]);
          const refused = {
            code: 'TABLES_NOT_EMPTY',
            message: expect.stringMatching(
              /outbox_parked.* is unique before version 3 .* 1 message waits .* such as 01a\. Nothing was changed/,
            ),
            hint: expect.stringContaining('having count(*) > 1'),
          };
          await expect(db.undoLastMigration()).rejects.toMatchObject(refused);
          const { up, back } = outboxSql('mysql', { buckets: BUCKETS, ordering });
          await expect(script(back)).rejects.toMatchObject({ errno: 1062 });
          expect(await isUnique()).toBe(false);
          await acts(); // its version and its audit are there
          await db.query(`delete from outbox_parked where id = '01a' limit 1`);
          await db.undoLastMigration();
          expect(await isUnique()).toBe(true);
          await script(up);
          expect(await isUnique()).toBe(false);
          await script(back);
          expect(await isUnique()).toBe(true);
        });

        it('I3: tables of version 3 with the unique index, as builds before it made them, are refused, and mended by the script and by the statement', async () => {
          await db.runMigrations();
          const old = 'alter table outbox_parked drop key by_id, add unique key by_id (id, transport)';
          await db.query(old);
          const { message } = (await store.setup.check(settings).then(
            () => undefined,
            (error: unknown) => error,
          )) as Error;
          expect(message).toMatch(/outbox_parked has no key that is not unique on \(id, transport\)/);
          await db.query(/\(run: (alter table .*?\(`id`, `transport`\))\)/.exec(message)?.[1] as string);
          await store.setup.check(settings);
          await db.query(old);
          await script(outboxSql('mysql', { buckets: BUCKETS, ordering }).up);
          await store.setup.check(settings);
          await db.query(old);
          await store.setup.create(settings);
          await store.setup.check(settings);
        });
      }

      it('I3: what of the audit differs is named by the check with the statement that mends it', async () => {
        await db.runMigrations();
        await db.query('alter table outbox_audit drop column actor');
        await expect(store.setup.check(settings)).rejects.toThrow(
          /outbox_audit.*actor.* is missing.*\(run: alter table .*outbox_audit.* add/,
        );
        await db.query('drop table outbox_audit');
        await expect(store.setup.check(settings)).rejects.toThrow(
          /outbox_audit.* (is|are) missing|Tables are missing: .*outbox_audit/,
        );
      });
    });
  });
});
