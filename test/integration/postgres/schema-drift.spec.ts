import { spawnSync } from 'node:child_process';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OpenStoreSettings } from '../../../lib/nest/open-store.js';
import { outboxMigrations, outboxSql, type OutboxSchemaOptions } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase } from '../../support/databases.js';
import { canStart, postgresProgram } from '../../support/own-database.js';
import { DATABASE, PostgresFixture, SETTINGS } from '../../support/postgres-store.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'tables on PostgreSQL that were made in another way', () => {
  const fixture = new PostgresFixture();
  const run = (sql: string) => fixture.application.query(sql);
  beforeAll(() => fixture.start());
  afterEach(() => fixture.closeStores());
  afterAll(() => fixture.stop());

  it('E10: what is ours and a little more, or said in another way, is accepted', async () => {
    const { up } = outboxSql('postgres');
    await run(up.replaceAll('\n', '\r\n    ')); // as an editor or another tool leaves it
    await run(`
      alter table outbox_parked alter state set default 1, alter headers set default '{}', add tenant int default 7;
      alter table outbox_ready alter async_commit set default ((current_setting(('synchronous_commit')::text))::text operator(pg_catalog.=) 'off'::text);
      alter table outbox_ready alter created_at set default pg_catalog.clock_timestamp();
      alter table outbox_parked drop constraint outbox_parked_id_transport_seq_key;
      create unique index mine on outbox_parked (id, transport, seq) include (state);
      alter function outbox_messages_insert() security definer;
      create index more on outbox_ready (topic);`);
    await fixture.store().setup.check(SETTINGS);
  });

  describe.each(['key', 'strict', 'global'] as const)('ordering: %s', (ordering) => {
    const check = async (options: OutboxSchemaOptions, application: DataSource): Promise<void> => {
      const { prefix = 'outbox_', schema, buckets = 32 } = options;
      const settings = { ...SETTINGS, ordering, buckets };
      const own: Partial<OpenStoreSettings> = { ordering, buckets, options: { ...DATABASE, prefix, schema } };
      await fixture.store(own, application).setup.check(settings);
    };

    it('E10: tables of every way to make them are accepted, whatever the session calls them', async () => {
      const database = await createTestDatabase('postgres');
      const connect = (more: object = {}) =>
        new DataSource({ ...database.options, ...more } as DataSourceOptions).initialize();
      const named = { prefix: 'select_', schema: 'order', buckets: 7, ordering } as const;
      const migrations = [...outboxMigrations({ ordering }), ...outboxMigrations(named)];
      const db = await connect({ migrations });
      const elsewhere = await connect({ extra: { options: '-c search_path="order"' } });
      const capital = await connect({ schema: 'Mine Too' });
      try {
        await db.runMigrations();
        await db.query('create schema "Mine Too"; create schema plain');
        await capital.query('set search_path = "Mine Too"');
        await db.query(`set search_path = plain; ${outboxSql('postgres', { ordering }).up} reset search_path`);
        await fixture.store({ ordering }, capital).setup.create({ ...SETTINGS, ordering });
        for (const application of [db, elsewhere]) {
          await check({ schema: 'public' }, application);
          await check({ schema: 'plain' }, application);
          await check(named, application);
        }
        await check({}, capital);
        if (await dumps(db)) await restore(database.url, connect, (copy) => check(named, copy));
      } finally {
        for (const each of [db, elsewhere, capital]) await each.destroy();
        await database.drop();
      }
    });
  });

  /** pg_dump refuses servers that are newer, and writes what older ones do not read. */
  async function dumps(db: DataSource): Promise<boolean> {
    if (!canStart.postgres) return false;
    const [{ server }] = await db.query(`select current_setting('server_version_num')::int / 10000 as server`);
    const { stdout } = spawnSync(postgresProgram('pg_dump'), ['--version'], { encoding: 'utf8' });
    return Number(/ (\d+)\./.exec(stdout)?.[1]) === server;
  }

  /** What a dump writes is what the server prints. */
  async function restore(
    url: string,
    connect: (more: object) => Promise<DataSource>,
    look: (copy: DataSource) => Promise<void>,
  ): Promise<void> {
    const database = await createTestDatabase('postgres');
    const { stdout: dump, stderr } = spawnSync(postgresProgram('pg_dump'), [url], { encoding: 'utf8' });
    const psql = ['-q', '-v', 'ON_ERROR_STOP=1', database.url];
    const restored = spawnSync(postgresProgram('psql'), psql, { input: dump, encoding: 'utf8' });
    expect([stderr, restored.stderr]).toEqual(['', '']);
    const copy = await connect({ url: database.url });
    try {
      await look(copy);
    } finally {
      await copy.destroy();
      await database.drop();
    }
  }
});
