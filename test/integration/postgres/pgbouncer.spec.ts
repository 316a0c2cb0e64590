import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import { RecordingTransport } from '../../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { PgBouncer, type PoolMode } from '../../support/pgbouncer.js';
import { describeUnlessMissing, requiredUrl, serviceUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

const missing = [
  ...(serviceUrl('postgres') === undefined ? (['postgres'] as const) : []),
  ...(PgBouncer.isInstalled ? [] : (['pgbouncer'] as const)),
];
const KEYS = 10;
const MESSAGES = 1_000;
/** Of the server, for one database. */
const SESSIONS = 8;
/** In session mode a client keeps its session: ten of an application's pool, those of its relay, and those of a second process. */
const ONE_FOR_EACH = 30;
const LISTENERS = `select pid from pg_stat_activity where datname = current_database() and query like 'listen "outbox%'`;
/** But for what PgBouncer itself keeps for each client, the statements that are prepared, and the channels that are listened to. */
const SET_IN_SESSION = `select pg_backend_pid() as pid, array(
  select name from pg_settings where source in ('session', 'client') and name not in
    ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'transaction_isolation')
  union all select name from pg_prepared_statements union all select pg_listening_channels()) as changed`;

describeUnlessMissing(missing, 'behind PgBouncer', () => {
  const closing: (() => unknown)[] = [];
  let database: TestDatabase;
  let transport: RecordingTransport;
  let warnings: string[];
  let errors: string[];

  beforeEach(async () => {
    database = await createTestDatabase('postgres');
    transport = new RecordingTransport();
    [warnings, errors] = [[], []];
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await database.drop();
  });

  async function pooler(mode: PoolMode, sessions = SESSIONS): Promise<PgBouncer> {
    const started = await PgBouncer.start(requiredUrl('postgres'), mode, sessions);
    closing.push(started.stop);
    return started;
  }

  /** An application whose only address is the pooler's. */
  async function application(url: string, options: Partial<OutboxOptions> = {}, driver = {}): Promise<TestingModule> {
    const imports = [
      TypeOrmModule.forRoot({ type: 'postgres', url, retryAttempts: 0, ...driver }),
      OutboxModule.forRoot({
        transports: { default: transport },
        logger: {
          log: () => undefined,
          warn: (line: unknown) => void warnings.push(String(line)),
          error: (line: unknown) => void errors.push(String(line)),
        },
        database: { setup: 'create' },
        ...options,
      } as OutboxOptions),
    ];
    const testing = Test.createTestingModule({ imports }).setLogger(false as never);
    const app = await (await testing.compile()).init();
    closing.push(() => app.close());
    return app;
  }

  async function enqueueAll(app: TestingModule): Promise<void> {
    const outbox = app.get(OutboxService);
    const write = async (key: number): Promise<void> => {
      for (let n = 0; n < MESSAGES / KEYS; n += 1)
        await outbox.transaction(() => outbox.enqueue({ type: 'numbered', key: `k${key}`, payload: { n } }));
    };
    await Promise.all(Array.from({ length: KEYS }, (_, key) => write(key)));
  }

  /** One after the other. Polls of a minute would take more than three of them. */
  async function eachIsHeard(outbox: OutboxService): Promise<void> {
    let sent = 0;
    await until(async () => {
      const arrived = transport.published.length;
      if (arrived === sent && sent < 4) {
        sent += 1;
        await outbox.transaction(() => outbox.enqueue({ type: 'heard', payload: {} }));
      }
      return arrived === 4;
    }, 120_000);
  }

  /** As one who comes without the pooler. */
  async function ask<T>(sql: string): Promise<T[]> {
    const direct = await new DataSource({ type: 'postgres', url: database.url }).initialize();
    return (direct.query(sql) as Promise<T[]>).finally(() => direct.destroy());
  }
  const left = async (): Promise<number> => (await ask('select id from outbox_ready')).length;

  const numbersOf = (key: string): number[] =>
    transport.published
      .filter((message) => message.key === key)
      .map(({ payload }) => (JSON.parse(String(payload)) as { n: number }).n);
  const inOrder = Array.from({ length: MESSAGES / KEYS }, (_, n) => n);

  it.each([
    ['transaction', SESSIONS],
    ['session', ONE_FOR_EACH],
  ] as const)(
    'W1, W7: in %s mode with the defaults all messages are published, in the order of their keys',
    async (mode, sessions) => {
      const { url } = database;
      const app = await application((await pooler(mode, sessions)).through(url));
      await enqueueAll(app);
      await until(() => transport.published.length >= MESSAGES, 120_000);
      for (let key = 0; key < KEYS; key += 1) expect(numbersOf(`k${key}`)).toEqual(inOrder);
      expect(errors).toEqual([]);
      await until(async () => (await left()) === 0);
      const ofPooler = warnings.filter((line) => /PgBouncer.*RDS Proxy.*Supavisor/.test(line));
      expect(ofPooler).toHaveLength(1);
    },
  );

  it('W2: nothing that the outbox sets stays in the sessions that the pooler hands on to others', async () => {
    const pooled = (await pooler('transaction')).through(database.url);
    const app = await application(pooled);
    await enqueueAll(app);
    await until(() => transport.published.length >= MESSAGES, 120_000);
    await app.get(OutboxService).health();
    const strangers = new DataSource({ type: 'postgres', url: pooled, extra: { max: SESSIONS } });
    await strangers.initialize();
    closing.push(() => strangers.destroy());
    const seen = await Promise.all(
      Array.from({ length: SESSIONS }, async () => {
        const runner = strangers.createQueryRunner();
        closing.push(() => runner.release());
        await runner.startTransaction(); // holds a session: so each of them is seen
        closing.push(() => runner.rollbackTransaction());
        return (await runner.query(SET_IN_SESSION)) as { pid: number; changed: string[] }[];
      }),
    );
    const sessions = seen.flat();
    expect(new Set(sessions.map(({ pid }) => pid)).size).toBe(SESSIONS);
    expect(sessions.flatMap(({ changed }) => changed)).toEqual([]);
  });

  it('W3: in statement mode the start fails, and says what to set', async () => {
    const pooled = (await pooler('statement')).through(database.url);
    await expect(application(pooled)).rejects.toThrow(
      expect.objectContaining({
        code: 'UNSUPPORTED_DATABASE',
        message: expect.stringMatching(/takes no transactions.*Set pool_mode to transaction/),
      }),
    );
  });

  it('W1: who says by the options that a pooler is there is told nothing', async () => {
    const pooled = (await pooler('transaction')).through(database.url);
    await application(pooled, { database: { setup: 'create', pooler: true } });
    expect(warnings).toEqual([]);
  });

  it('W4: one that no process id shows is noticed by the first statement that is not there, unless it keeps statements', async () => {
    const { url } = database;
    /** As a driver sees it that does not keep the id, or one to which the pooler tells the server's. */
    class Client extends pg.Client {
      get processID(): undefined {
        return undefined;
      }
      set processID(_: unknown) {}
    }
    const pooled = (await pooler('transaction')).through(url);
    const app = await application(pooled, {}, { driver: { ...pg, Client } });
    await enqueueAll(app);
    await until(() => transport.published.length >= MESSAGES, 120_000);
    for (let key = 0; key < KEYS; key += 1) expect(numbersOf(`k${key}`)).toEqual(inOrder);
    const told = warnings.filter((line) => /PgBouncer.*RDS Proxy.*Supavisor/.test(line));
    expect(told).toHaveLength(PgBouncer.keepsStatements ? 0 : 1);
  });

  it('W6: with a way past the pooler the relay listens there, and hears at once what other processes commit', async () => {
    const pooled = (await pooler('transaction')).through(database.url);
    const settings = { setup: 'create', pooler: database.url } as const;
    await application(pooled, { pollInterval: '1m', database: settings });
    await until(async () => (await ask(LISTENERS)).length === 1);
    const other = await application(pooled, { relay: false });
    await eachIsHeard(other.get(OutboxService));
    expect(warnings.join()).not.toMatch(/relay polls.*relay polls/s); // only the process that has no way past it says so
  });

  it('W6: a way that leads to a pooler, too, is told, and the relay polls', async () => {
    const pooled = (await pooler('transaction')).through(database.url);
    await application(pooled, { database: { setup: 'create', pooler: pooled } });
    await until(() => warnings.length > 0);
    expect(warnings).toEqual([expect.stringMatching(/address in database.pooler leads to a pooler, too/)]);
    expect(await ask(LISTENERS)).toEqual([]);
  });

  it("W7: in session mode with wakeUp: 'notify' the relay listens through the pooler, and hears what other processes commit", async () => {
    const pooled = (await pooler('session', ONE_FOR_EACH)).through(database.url);
    await application(pooled, { pollInterval: '1m', wakeUp: 'notify' });
    await until(async () => (await ask(LISTENERS)).length === 1);
    await eachIsHeard((await application(pooled, { relay: false, wakeUp: 'notify' })).get(OutboxService));
  });
});
