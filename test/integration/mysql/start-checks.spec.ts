import { createConnection, type Connection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService, type OutboxStore } from '../../../lib/index.js';
import type { MysqlStore } from '../../../lib/store/mysql/store.js';
import { openStore } from '../../support/open-store.js';
import { Applications, build, CollectingTransport, quiet, typeOrm } from '../../nest/support/app.js';
import { statement } from '../../../lib/store/sql.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnOwnMysqlFamily, type OwnNode } from '../../support/own-database.js';
import { DATABASE, SETTINGS } from '../../support/postgres-store.js';
import { until } from '../../support/until.js';

/** What each calls the defaults of a session's transactions. */
const TRANSACTIONS = {
  mariadb: { isolation: 'tx_isolation', readOnly: 'tx_read_only' },
  mysql: { isolation: 'transaction_isolation', readOnly: 'transaction_read_only' },
};

describeOnOwnMysqlFamily([], 'checks at start', (kind, startServer) => {
  const names = TRANSACTIONS[kind];
  const SESSION = statement(undefined, `select @@sql_mode, @@character_set_client, @@${names.isolation}, @@time_zone`);
  let server: OwnNode;
  let database: TestDatabase;
  let admin: Connection;
  const applications = new Applications();
  beforeAll(async () => {
    server = await startServer(['--log-bin', '--sync-binlog=1']);
    database = await createTestDatabase(kind, server.url);
    admin = await createConnection({ uri: database.url, multipleStatements: true });
    await store((one) => one.setup.create(SETTINGS));
  });
  afterEach(() => applications.close());
  afterAll(async () => {
    await admin?.end();
    await server?.stop();
  });

  /** A store of an application that starts now: server settings are read once per connection. */
  async function store<T>(work: (one: OutboxStore) => Promise<T>): Promise<T> {
    const application = await new DataSource(database.options).initialize();
    const one = openStore(application, {
      ...SETTINGS,
      onPublished: 'delete',
      options: { ...DATABASE, setup: 'check' },
    });
    try {
      return await work(one);
    } finally {
      await one.close();
      await application.destroy();
    }
  }
  const check = (settings: Parameters<OutboxStore['setup']['check']>[0] = SETTINGS) =>
    store((one) => one.setup.check(settings)).then(
      () => 'accepted',
      ({ code, message }: Error & { code: string }) => `${code} ${message}`,
    );
  const during = async (set: string, reset: string, work: () => Promise<void>): Promise<void> => {
    await admin.query(set);
    try {
      await work();
    } finally {
      await admin.query(reset);
    }
  };
  const global = (name: string, value: string, work: () => Promise<void>) =>
    during(`set @was = @@global.${name}; set global ${name} = ${value}`, `set global ${name} = @was`, work);

  it('A5: several servers that deal out numbers are refused where there is an order, until somebody says that one is written to', () =>
    global('auto_increment_increment', '2', async () => {
      expect(await check()).toMatch(/^UNSUPPORTED_DATABASE auto_increment_increment is 2/);
      const tables = new URL(database.url).pathname.slice(1);
      expect(await check()).toContain(
        `insert into \`${tables}\`.\`outbox_meta\` (name, value) values ('one_writer', 'yes')`,
      );
      await store((one) => expect(one.setup.create(SETTINGS)).rejects.toMatchObject({ code: 'UNSUPPORTED_DATABASE' }));
      expect(await check({ ...SETTINGS, ordering: 'none' })).toMatch(/^SCHEMA_MISMATCH .*ordering/);
      await during(
        `insert into outbox_meta (name, value) values ('one_writer', 'yes')`,
        `delete from outbox_meta where name = 'one_writer'`,
        async () => expect(await check()).toBe('accepted'),
      );
    }));

  it.each(['read_only'])('A7: a server with %s is refused, also where the user may write', (name) =>
    global(name, '1', async () => {
      expect(await check()).toMatch(/^UNSUPPORTED_DATABASE The database is read-only .*at the primary/);
      expect(await store(async (one) => one.diagnose?.ask('warnings'))).toEqual([
        expect.stringMatching(/^The database is read-only: .* Point the data layer, .*, at the primary\.$/),
      ]);
    }),
  );

  it('A7: sessions whose transactions are read-only by default write all the same', () =>
    global(names.readOnly, '1', async () => {
      const ids = await store((one) => one.setup.transports(['default', 'another'], 'default'));
      expect(ids.size).toBe(2);
    }));

  it('F9: makes tables with long keys where new tables have short ones by default, as a server of MySQL 5.6 had', () =>
    global('innodb_default_row_format', "'compact'", async () => {
      const [was, fresh] = [database, await createTestDatabase(kind, server.url)];
      database = fresh;
      try {
        await store((one) => one.setup.create({ ...SETTINGS, ordering: 'strict' }));
        expect(await check({ ...SETTINGS, ordering: 'strict' })).toBe('accepted');
      } finally {
        database = was;
        await fresh.drop();
      }
    }));

  it('refuses a binary log that takes no READ COMMITTED writes', () =>
    global('binlog_format', "'STATEMENT'", async () => {
      expect(await check()).toMatch(/^UNSUPPORTED_DATABASE binlog_format is STATEMENT/);
    }));

  it.each([
    ['innodb_flush_log_at_trx_commit', '2', /^innodb_flush_log_at_trx_commit is 2: .* Set it to 1\.$/],
    ['sync_binlog', '0', /^sync_binlog is 0: .* Set it to 1\.$/],
    ['sql_mode', "''", /^sql_mode is not strict: .* Add STRICT_TRANS_TABLES\.$/],
  ])('F5: warns of %s = %s, says what to do, and starts', (name, value, words) =>
    global(name, value, async () => {
      expect(await check()).toBe('accepted');
      expect(await store(async (one) => one.diagnose?.ask('warnings'))).toEqual([expect.stringMatching(words)]);
    }),
  );

  it('F5: an application whose sessions are lax and speak latin1 still enqueues every byte, and the relay sets its own', () =>
    global('sql_mode', "''", async () => {
      const transport = new CollectingTransport();
      const received: unknown[] = [];
      transport.publish = async (batch) => {
        received.push(
          ...batch.map(({ topic, key, type, headers, payload }) => ({
            topic,
            key,
            type,
            headers,
            text: String(payload),
          })),
        );
        return batch.map(() => ({ ok: true }));
      };
      const latin = { ...database, options: { ...database.options, charset: 'LATIN1_SWEDISH_CI' } } as TestDatabase;
      const app = await applications.start(
        build([
          typeOrm(latin),
          OutboxModule.forRoot(quiet({ transports: { default: transport }, database: { prefix: 'lax_' } })),
        ]),
      );
      const text = `ключ 💥 'quoted' \\ ${'€'.repeat(20)}`;
      await app
        .get(OutboxService)
        .enqueueOutsideTransaction({ type: text, topic: text, key: text, headers: { h: text }, payload: { text } });
      await until(() => received.length === 1);
      expect(received[0]).toMatchObject({ topic: text, key: text, type: text, text: JSON.stringify({ text }) });
      expect(Object.values((received[0] as { headers: object }).headers)).toContain(text);
      const [own] = await store((one) =>
        (one as MysqlStore).database
          .connection('admin')
          .run(SESSION.bind())
          .then(({ rows }) => rows),
      );
      expect(own).toEqual([expect.stringContaining('STRICT_TRANS_TABLES'), 'utf8mb4', 'READ-COMMITTED', '+00:00']);
    }));
});
