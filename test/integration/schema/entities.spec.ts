import { DataSource, type DataSourceOptions } from 'typeorm';
import { VIEW_COLUMNS as MYSQL } from '../../../lib/store/mysql/schema/schema.js';
import { VIEW_COLUMNS as POSTGRES } from '../../../lib/store/postgres/schema/view.js';
import { outboxEntities, outboxMigrations, type OutboxMessageRow } from '../../../lib/data-layers/typeorm/index.js';
import { createUser } from '../../readme/sql.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith, DATABASES, dialectOf } from '../../support/services.js';

/** Read only where they are asked for, as a login for dashboards has no right to them. */
const CONTENT = { headers: true, options: true, payload: true } as const;
const INSERT = {
  postgres: (prefix: string) =>
    `insert into ${prefix}messages (id, topic, type, payload, headers) values ('01932f6e-2b3c-7d4e-8f5a-6b7c8d9e0f1a', 't', 't', '{"a":1}', '{"h":"1"}')`,
  mysql: (prefix: string) =>
    `insert into ${prefix}ready (id, bucket, topic, type, payload, headers) values ('01932f6e-2b3c-7d4e-8f5a-6b7c8d9e0f1a', 1, 't', 't', '{"a":1}', '{"h":"1"}')`,
};

describe.each(DATABASES)('The entities on %s', (kind) => {
  describeWith(kind, 'which show the view', () => {
    const closings: (() => Promise<unknown>)[] = [];
    let database: TestDatabase;
    let admin: DataSource;
    const connect = async (options: Partial<DataSourceOptions>): Promise<DataSource> => {
      const dataSource = await new DataSource({ ...database.options, ...options } as DataSourceOptions).initialize();
      closings.unshift(() => dataSource.destroy());
      return dataSource;
    };
    beforeAll(async () => {
      database = await createTestDatabase(kind);
      closings.push(() => database.drop());
      const prefixes = ['outbox_', 'app_outbox_'];
      admin = await connect({ migrations: prefixes.flatMap((prefix) => outboxMigrations({ prefix })) });
      await admin.runMigrations();
      for (const prefix of prefixes) await admin.query(INSERT[dialectOf(kind)](prefix));
    });
    afterAll(async () => {
      for (const close of closings) await close();
    });
    const repository = async (options: Partial<DataSourceOptions> = {}) => {
      const [entity] = outboxEntities();
      const reader = await connect({ ...options, entities: [entity as never] });
      return reader.getRepository<OutboxMessageRow>(entity as never);
    };

    it('L9: have every column of the view, and read what is in a message only when it is selected', async () => {
      const rows = await repository();
      const columns = rows.metadata.columns.map(({ databaseName }) => databaseName);
      const shown = kind === 'postgres' ? Object.keys(POSTGRES) : MYSQL;
      expect(columns.sort()).toEqual(shown.filter((name) => name !== 'payload_bytes').sort());
      const row = await rows.findOneByOrFail({ topic: 't' });
      expect(row).toMatchObject({ state: 'ready', lastAttemptAt: null, errors: null });
      expect(Object.keys(row).filter((name) => name in CONTENT)).toEqual([]);
      expect('transport' in row).toBe(true);
      const whole = await rows.findOneOrFail({ select: CONTENT, where: { topic: 't' } });
      expect({ ...whole, payload: String(whole.payload) }).toMatchObject({
        headers: '{"h":"1"}',
        options: null,
        payload: '{"a":1}',
      });
    });

    it('L9: are found under an entityPrefix with which the outbox’s own prefix begins', async () => {
      const rows = await repository({ entityPrefix: 'app_' });
      expect([rows.metadata.tablePath, await rows.countBy({ state: 'ready' })]).toEqual(['app_outbox_messages', 1]);
    });

    if (kind !== 'postgres') return; // A dashboard has a view of its own there.
    it('L9: are read by a login for dashboards', async () => {
      const user = await createUser(admin, kind, 'shop_dashboard');
      closings.unshift(() => user.drop());
      const rows = await repository({ url: user.url } as Partial<DataSourceOptions>);
      expect(await rows.findBy({ state: 'ready' })).toMatchObject([{ topic: 't', type: 't' }]);
      await expect(rows.find({ select: CONTENT })).rejects.toThrow(/permission denied/);
    });
  });
});
