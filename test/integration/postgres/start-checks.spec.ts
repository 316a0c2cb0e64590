import { spawnSync } from 'node:child_process';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService } from '../../../lib/index.js';
import type { PostgresStore } from '../../../lib/store/postgres/store.js';
import { outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import {
  Applications,
  build,
  CollectingTransport,
  failure,
  OrderPlaced,
  quiet,
  typeOrm,
} from '../../nest/support/app.js';
import type { TestDatabase } from '../../support/databases.js';
import {
  canStart,
  postgresProgram,
  startOwnPostgres,
  type OwnDatabase,
  type OwnPostgres,
} from '../../support/own-database.js';
import { PostgresFixture, SETTINGS } from '../../support/postgres-store.js';
import { describeUnlessMissing, describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

describeWith('postgres', 'checks at start on PostgreSQL', () => {
  const fixture = new PostgresFixture();
  const run = (sql: string) => fixture.application.query(sql);
  beforeAll(async () => {
    await fixture.start();
    await run(outboxSql('postgres').up);
  });
  afterAll(() => fixture.stop());

  const session = async (settings: string, look: (own: PostgresStore) => Promise<void>) => {
    const options = { ...fixture.database.options, extra: { options: settings } } as DataSourceOptions;
    const dataSource = await new DataSource(options).initialize();
    try {
      await look(fixture.store({}, dataSource));
    } finally {
      await dataSource.destroy();
    }
  };

  it('A7: sessions whose transactions are read-only are refused', () =>
    session('-c default_transaction_read_only=on', async (own) => {
      for (const start of [own.setup.check(SETTINGS), own.setup.create(SETTINGS)]) {
        await expect(start).rejects.toMatchObject({
          code: 'UNSUPPORTED_DATABASE',
          message: expect.stringContaining('default_transaction_read_only is on'),
        });
      }
    }));

  it('warns of sessions that do not wait for the disk', () =>
    session('-c synchronous_commit=off', async (own) => {
      await own.setup.check(SETTINGS);
      expect(await own.diagnose?.ask('warnings')).toEqual([
        expect.stringMatching(/^synchronous_commit is off .* set it to on for the server, the database or the role\.$/),
      ]);
    }));
});

describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'a PostgreSQL of its own', () => {
  let primary: OwnPostgres;
  let standby: OwnDatabase;
  const applications = new Applications();
  beforeAll(async () => {
    primary = await startOwnPostgres({ fsync: 'off', full_page_writes: 'off' });
    standby = await primary.standby();
  });
  afterEach(() => applications.close());
  afterAll(() => {
    standby?.stop();
    primary?.stop();
  });

  const sessions = async (url: string): Promise<number> => {
    const dataSource = await new DataSource({ type: 'postgres', url }).initialize();
    const rows: unknown[] = await dataSource.query(
      `select from pg_stat_activity where application_name = 'nestjs-outbox'`,
    );
    await dataSource.destroy();
    return rows.length;
  };

  it('A7: with a replication option everything goes to the primary, and the relay never asks the replica', async () => {
    const replication = { master: { url: primary.url }, slaves: [{ url: standby.url }] };
    const transport = new CollectingTransport();
    const app = await applications.start(
      build([
        TypeOrmModule.forRoot({ type: 'postgres', replication, retryAttempts: 0 }),
        OutboxModule.forRoot(quiet({ transports: { default: transport } })),
      ]),
    );
    const replay = await new DataSource({ type: 'postgres', url: standby.url }).initialize();
    await replay.query('select pg_wal_replay_pause()'); // what is committed from here on is on the primary alone
    const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(() => transport.ids.includes(id));
    expect([await sessions(standby.url), (await sessions(primary.url)) > 0]).toEqual([0, true]);
    await replay.query('select pg_wal_replay_resume()');
    await replay.destroy();
  });

  it('A7: a replica is refused', async () => {
    const error = await failure(
      build([
        TypeOrmModule.forRoot({ type: 'postgres', url: standby.url, retryAttempts: 0 }),
        OutboxModule.forRoot(quiet()),
      ]),
    );
    expect(error).toMatchObject({
      code: 'UNSUPPORTED_DATABASE',
      message: expect.stringMatching(/read-only replica.*replication option, at the primary/),
    });
  });

  it('warns of a server that loses what it committed, and of a replica, and says what to do', async () => {
    const warnings = async ({ url }: OwnDatabase): Promise<string[]> => {
      const dataSource = await new DataSource({ type: 'postgres', url }).initialize();
      const store = new PostgresFixture().store({}, dataSource);
      const found = (await store.diagnose?.ask('warnings')) ?? [];
      await store.close();
      await dataSource.destroy();
      return [...found].sort();
    };
    const lossy = [
      expect.stringMatching(/^fsync is off: .* Set it to on for the server\.$/),
      expect.stringMatching(/^full_page_writes is off: .* Set it to on for the server\.$/),
    ];
    expect(await warnings(primary)).toEqual(lossy);
    expect(await warnings(standby)).toEqual([
      expect.stringMatching(/^The database is a read-only replica: .* Point the data layer, .*, at the primary\.$/),
      ...lossy,
    ]);
  });

  describe('a database that is a copy', () => {
    const databases: TestDatabase[] = [];
    beforeAll(async () => {
      const admin = await new DataSource({ type: 'postgres', url: primary.url }).initialize();
      for (const name of ['original', 'copy']) {
        await admin.query(`create database ${name}`);
        const url = primary.url.replace(/postgres$/, name);
        databases.push({ kind: 'postgres', url, options: { type: 'postgres', url }, drop: async () => {} });
      }
      await admin.destroy();
    });
    const database = (name: 'original' | 'copy') => databases[name === 'original' ? 0 : 1] as TestDatabase;

    const restore = (): void => {
      const [from, to] = [database('original').url, database('copy').url];
      const dump = spawnSync(postgresProgram('pg_dump'), ['--clean', '--if-exists', from], { encoding: 'utf8' });
      const restored = spawnSync(postgresProgram('psql'), ['-q', '-v', 'ON_ERROR_STOP=1', to], {
        input: dump.stdout,
        encoding: 'utf8',
      });
      expect([dump.stderr, restored.stderr]).toEqual(['', '']);
    };
    /** An application on it, as production starts it: nothing is created. */
    const start = (name: 'original' | 'copy', transport: CollectingTransport, relay: boolean | 'manual' = true) =>
      applications.start(
        build([typeOrm(database(name)), OutboxModule.forRoot(quiet({ relay, transports: { default: transport } }))]),
      );
    const query = async (sql: string): Promise<unknown[]> => {
      const dataSource = await new DataSource(database('copy').options).initialize();
      const rows = await dataSource.query<unknown[]>(sql);
      await dataSource.destroy();
      return rows;
    };

    it('A13: after a dump was restored nothing is published until somebody says so; the application runs', async () => {
      const first = await start('original', new CollectingTransport(), 'manual');
      await first.get(OutboxDispatcher).runOnce(); // the tables are this database's
      const id = await first.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await applications.close();
      restore();

      const transport = new CollectingTransport();
      const app = await start('copy', transport);
      const outbox = app.get(OutboxService);
      await until(async () => (await outbox.health()).status === 'down');
      const fresh = await outbox.enqueueOutsideTransaction(new OrderPlaced('2'));
      expect(await outbox.health()).toMatchObject({
        status: 'down',
        reasons: expect.arrayContaining([expect.objectContaining({ code: 'database_copied' })]),
      });
      await expect(app.get(OutboxDispatcher).runOnce()).rejects.toMatchObject({
        code: 'DATABASE_COPIED',
        message: expect.stringContaining(`delete from "public"."outbox_meta" where name = 'database'`),
      });
      expect(transport.ids).toEqual([]);
      await query(`delete from "public"."outbox_meta" where name = 'database'`);
      await until(() => transport.ids.includes(id) && transport.ids.includes(fresh));
      await until(async () => (await outbox.health()).status === 'up');
    });

    it('A13: the same with row locks, which know no leases', async () => {
      const app = await applications.start(
        build([
          typeOrm(database('copy')),
          OutboxModule.forRoot(
            quiet({ coordination: 'rowLock', ordering: 'none', relay: 'manual', database: { prefix: 'locks_' } }),
          ),
        ]),
      );
      const dispatcher = app.get(OutboxDispatcher);
      await dispatcher.runOnce();
      await query(`update locks_meta set value = 'another/1' where name = 'database'`);
      await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await dispatcher.stop();
      const operations: string[] = [];
      app.get(OutboxService).events.on('error', ({ operation }) => operations.push(operation));
      await dispatcher.start();
      await until(() => operations.includes('fetch')); // the relay itself was told
      expect(await app.get(OutboxService).stats()).toMatchObject({ transports: { default: { ready: 1 } } });
    });

    it('A13: one with messages is not noticed by a relay that may not ask which database it is', async () => {
      await query(
        `insert into outbox_meta values ('database', 'another/1') on conflict (name) do update set value = 'another/1'`,
      );
      await query(`revoke execute on function pg_control_system() from public;
        create role limited login; grant usage on schema public to limited; grant usage on all sequences in schema public to limited;
        grant select, insert, update, delete on all tables in schema public to limited`);
      const transport = new CollectingTransport();
      const url = database('copy').url.replace('postgres@', 'limited@');
      const limited = { ...database('copy'), options: { type: 'postgres', url } as const };
      const options = quiet({ transports: { default: transport }, relay: 'manual', database: { setup: 'check' } });
      const app = await applications.start(build([typeOrm(limited), OutboxModule.forRoot(options)]));
      const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await app.get(OutboxDispatcher).drain();
      expect(transport.ids).toContain(id);
    });

    it('A13: tables without messages change hands without a word', async () => {
      const transport = new CollectingTransport();
      await query(`delete from outbox_ready; update outbox_meta set value = 'another/1' where name = 'database'`);
      const app = await start('copy', transport);
      const adopted = `select 1 from outbox_meta where name = 'database' and value <> 'another/1'`;
      await until(async () => (await query(adopted)).length === 1);
      const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      await until(() => transport.ids.includes(id));
    });
  });
});
