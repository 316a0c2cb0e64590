import { setImmediate as turn } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { OutboxStore } from '../../../lib/index.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { canStart, startOwnPostgres, type OwnDatabase, type OwnPostgres } from '../../support/own-database.js';
import { createHarness, newMessage, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

const CRASHES = 3;
/** Until one of them takes something that was committed: a relay's flush in the last moment leaves nothing to lose. */
const MOST_CRASHES = 30;

/** Servers of its own: they are crashed, and their disks lag behind. */
describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'a PostgreSQL that crashes', () => {
  const shared = process.env['OUTBOX_TEST_POSTGRES_URL'];
  const servers: OwnDatabase[] = [];
  let harness: Harness | undefined;
  const start = async (settings: Record<string, string>): Promise<OwnPostgres> => {
    const server = await startOwnPostgres(settings);
    servers.push(server);
    process.env['OUTBOX_TEST_POSTGRES_URL'] = server.url;
    return server;
  };
  afterEach(async () => {
    await harness?.close().catch(() => undefined);
    harness = undefined;
    process.env['OUTBOX_TEST_POSTGRES_URL'] = shared;
    for (const server of servers.splice(0)) server.stop();
  });

  /** A business row and its message, with the same name, in one transaction. */
  async function order(name: string, source: DataSource, { store, options }: Harness): Promise<void> {
    await source.transaction(async (manager) => {
      await manager.query('insert into thing (name) values ($1)', [name]);
      const message = newMessage({ key: name.split(':')[0] as string, payload: Buffer.from(name) }, options.buckets);
      await store.writer.insert(transactionExecutor(manager.queryRunner as never), [message]);
    });
  }
  const things = async (source: DataSource): Promise<Set<string>> =>
    new Set(((await source.query('select name from thing')) as { name: string }[]).map(({ name }) => name));
  /** A crash ends the connections of those that wait; nobody may hear of it but the driver's pools. */
  const connect = async (url: string): Promise<DataSource> =>
    new DataSource({ type: 'postgres', url, poolErrorHandler: () => undefined, logging: false }).initialize();

  interface Outcome {
    /** Committed, as the server had said, and gone. */
    lost: number;
    /** Published, and gone. */
    missed: number;
  }
  /** Load, a crash, and a look at what is left: until `enough`. */
  async function crashUnderLoad(
    settings: Record<string, string>,
    enough: (crashes: number, outcome: Outcome) => boolean,
  ): Promise<Outcome> {
    const lagging = { wal_writer_delay: '10s', wal_writer_flush_after: '1GB', fsync: 'on', max_wal_size: '4GB' };
    const server = await start({ ...lagging, ...settings });
    harness = await createHarness('postgres', { buckets: 4, pollInterval: 20 });
    await harness.dataSource.query('create table thing (name text primary key)');
    const transport = new ScriptedTransport();
    const outcome: Outcome = { lost: 0, missed: 0 };
    for (let crash = 0; !enough(crash, outcome) && crash < MOST_CRASHES; crash += 1) {
      const [application, relays] = [await connect(harness.database.url), await connect(harness.database.url)];
      const { dispatcher } = harness.relay({ default: transport }, {}, { dataSource: relays });
      await dispatcher.start();
      const before = transport.published.length;
      let stopped = false;
      const written: string[] = [];
      const write = async (key: string): Promise<void> => {
        for (let n = 0; !stopped; n += 1) {
          const name = `${crash}-${key}:${n}`;
          await order(name, application, harness as Harness).then(
            () => written.push(name),
            () => turn(), // a pool that is gone refuses without a pause
          );
        }
      };
      const writers = ['a', 'b', 'c'].map((key) => write(key));
      try {
        await until(() => transport.published.length >= before + 100);
        server.crash(); // this process stands still meanwhile: nothing is written or published between
      } finally {
        stopped = true;
      }
      const published = new Set(transport.texts);
      await Promise.all([...writers, dispatcher.stop()]);
      await Promise.all([application.destroy(), relays.destroy()]);
      const after = await connect(harness.database.url);
      const found = await things(after);
      await after.destroy();
      outcome.missed = [...published].filter((name) => !found.has(name)).length;
      outcome.lost += written.filter((name) => !found.has(name)).length;
    }
    return outcome;
  }

  it('A6: what was published is there after a crash, also when the application does not wait for the disk', async () => {
    const { lost, missed } = await crashUnderLoad(
      { synchronous_commit: 'off' },
      (crashes, outcome) => outcome.missed > 0 || (crashes >= CRASHES && outcome.lost > 0),
    );
    // The disk did lag behind: the server lost transactions that it had called committed, but none that was published.
    expect([missed, lost > 0]).toEqual([0, true]);
  }, 600_000); // MOST_CRASHES at the worst

  /** The standby hears of nothing any more, until it takes over. */
  async function cutOff(standby: DataSource): Promise<void> {
    await standby.query(`alter system set primary_conninfo = ''`);
    await standby.query('select pg_reload_conf()');
    await until(async () => (await standby.query('select 1 from pg_stat_wal_receiver')).length === 0);
  }
  async function withStandby(): Promise<{
    primary: OwnPostgres;
    standby: DataSource;
    published: ScriptedTransport;
    application: DataSource;
    /** How often a relay looked for messages. */
    reads(): number;
  }> {
    const primary = await start({ wal_level: 'replica', max_wal_senders: '4', hot_standby: 'on' });
    harness = await createHarness('postgres', { buckets: 4, pollInterval: 20 });
    await harness.dataSource.query('create table thing (name text primary key)');
    const other = await primary.standby();
    servers.push(other);
    const url = new URL(harness.database.url);
    url.port = new URL(other.url).port;
    const published = new ScriptedTransport();
    const relays = await connect(harness.database.url);
    let reads = 0;
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, { fetch: (request) => ((reads += 1), store.ready.fetch(request)) });
    await harness.relay({ default: published }, {}, { dataSource: relays, wrapStore }).dispatcher.start();
    return {
      primary,
      standby: await connect(url.href),
      reads: () => reads,
      published,
      application: await connect(harness.database.url),
    };
  }

  it('A12: with a synchronous standby nothing is published that it lacks', async () => {
    const { primary, standby, published, application, reads } = await withStandby();
    const admin = await connect(primary.url);
    await admin.query(`alter system set synchronous_standby_names = '*'`);
    await admin.query('select pg_reload_conf()');
    await until(
      async () => (await admin.query(`select 1 from pg_stat_replication where sync_state = 'sync'`)).length === 1,
    );
    await order('a:0', application, harness as Harness);
    await published.until(() => published.texts.includes('a:0'));
    await cutOff(standby);
    const never = order('a:1', application, harness as Harness).catch(() => undefined);
    await until(
      async () =>
        (await admin.query(`select 1 from pg_stat_activity where wait_event = 'SyncRep' and query = 'COMMIT'`))
          .length === 1,
    );
    // For ten more reads: the row is on the primary's disk and not visible, not even to a relay.
    const before = reads();
    await until(() => reads() >= before + 10);
    primary.stop();
    await standby.query('select pg_promote()');
    expect([[...(await things(standby))], published.texts]).toEqual([['a:0'], ['a:0']]);
    await never;
    await Promise.all([admin.destroy(), application.destroy(), standby.destroy()]);
  });
});
