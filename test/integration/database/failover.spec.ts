import { DataSource } from 'typeorm';
import type { OutboxHealth } from '../../../lib/index.js';
import { healthOf } from '../../../lib/observe/health.js';
import { Probe } from '../../../lib/observe/probe.js';
import { canStart, startOwnMariaDb, startOwnPostgres } from '../../support/own-database.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { canStartMysql, startOwnMysql } from '../../support/mysql-node.js';
import { CANARY, SECRETS } from '../../security/canaries.js';
import { createHarness, newMessage, patient, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeUnlessMissing, MYSQL_FAMILY, type DatabaseKind } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

/** A server that was demoted keeps its sessions: those that only read would read it for ever. */
describe('E2: a server that becomes read-only under a running relay', () => {
  const closing: (() => unknown)[] = [];
  let harness: Harness;
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  async function onOwn(kind: DatabaseKind, server: { readonly url: string }): Promise<void> {
    const variable = `OUTBOX_TEST_${kind.toUpperCase()}_URL`;
    const before = process.env[variable];
    closing.push(() => (process.env[variable] = before));
    process.env[variable] = server.url;
    harness = await createHarness(kind, { buckets: 4, lease: '10s', publishTimeout: '1s', pollInterval: 100 });
    closing.push(() => harness.close().catch(() => undefined));
  }

  /** A relay that reaches the database through a name that somebody can lead elsewhere. */
  async function relayThrough(url: string): Promise<{ proxy: TcpProxy; transport: ScriptedTransport }> {
    const proxy = await TcpProxy.start(url);
    const through = new URL(url);
    through.password = CANARY.databasePassword;
    through.host = `${proxy.host}:${proxy.port}`;
    const dataSource = await new DataSource({ ...harness.database.options, url: through.href } as never).initialize();
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport }, {}, { dataSource });
    closing.push(
      () => proxy.close(),
      () => dataSource.destroy().catch(() => undefined),
      () => dispatcher.stop(),
    );
    await dispatcher.start();
    return { proxy, transport };
  }

  /** Of a process that only enqueues, before it does. */
  async function healthBesideNoRelay(): Promise<OutboxHealth> {
    const probe = new Probe(patient(harness.store), {
      lease: 10_000,
      buckets: 4,
      ids: new Map([['default', 0]]),
      now: () => performance.now(),
      goneUpTo: () => () => '0',
    });
    const relay = { running: false, storeDownFor: null, transports: [] };
    return healthOf({ mode: false, relay, transports: new Map(), stats: await probe.ask() });
  }

  async function enqueue(source: DataSource, ...names: string[]): Promise<void> {
    const rows = names.map((name) => newMessage({ key: 'k', payload: Buffer.from(name), headers: SECRETS.headers }, 4));
    await source.transaction((manager) =>
      harness.store.writer.insert(transactionExecutor(manager.queryRunner as never), rows),
    );
  }

  describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'PostgreSQL', () => {
    it('the relay leaves all its sessions there, and goes on at the promoted one', async () => {
      const primary = await startOwnPostgres({ fsync: 'off', full_page_writes: 'off' });
      closing.push(() => primary.stop());
      await onOwn('postgres', primary);
      const standby = await primary.standby(); // which has the tables from its beginning
      closing.push(() => standby.stop());
      const { dataSource } = harness;
      const { proxy, transport } = await relayThrough(harness.database.url);
      await enqueue(dataSource, '0', '1');
      await until(async () => (await harness.count('ready')) === 0);

      const url = new URL(harness.database.url);
      url.port = new URL(standby.url).port;
      const promoted = await new DataSource({ type: 'postgres', url: url.href }).initialize();
      closing.push(() => promoted.destroy());
      const [settled] = await dataSource.query('select pg_current_wal_insert_lsn() as at');
      const has = 'select 1 where pg_last_wal_replay_lsn() >= $1';
      await until(async () => (await promoted.query(has, [settled.at])).length === 1);
      await dataSource.query(`alter system set default_transaction_read_only = on`);
      await dataSource.query(`select pg_reload_conf()`);
      await until(async () => (await healthBesideNoRelay()).status === 'down');
      expect(await healthBesideNoRelay()).toMatchObject({ reasons: [{ code: 'database_read_only' }] });
      proxy.lead(standby.url);
      await promoted.query('select pg_promote()');
      await enqueue(promoted, '2', '3');
      await transport.until(() => transport.published.length === 4, 60_000); // or it would read the old one for ever
      expect(transport.texts).toEqual(['0', '1', '2', '3']);
      await until(async () => (await promoted.query('select id from outbox_ready')).length === 0);
      expect(await harness.secretsTold()).toEqual([]);
    });
  });

  const isThere = { mariadb: canStart.mariadb, mysql: canStartMysql() };
  const own = { mariadb: startOwnMariaDb, mysql: startOwnMysql };
  for (const kind of MYSQL_FAMILY)
    describeUnlessMissing(isThere[kind] ? [] : [kind], kind, () => {
      it('the relay leaves all its sessions there, and goes on where it is led', async () => {
        const server = await own[kind]();
        closing.push(() => server.stop());
        await onOwn(kind, server);
        const root = harness.dataSource;
        // Who may ignore read_only does not notice it.
        await root.query(`create user app@'127.0.0.1' identified by '${CANARY.databasePassword}'`);
        await root.query(`grant select, insert, update, delete on *.* to app@'127.0.0.1'`);
        const url = new URL(harness.database.url);
        url.username = 'app';
        const { proxy, transport } = await relayThrough(url.href);
        await enqueue(root, '0', '1');
        await until(async () => (await harness.count('ready')) === 0);
        await root.query('set global read_only = 1');
        const before = proxy.accepted;
        const open = proxy.open;
        const told = { status: 'down', reasons: [{ code: 'database_read_only' }] };
        expect(await healthBesideNoRelay()).toMatchObject(told);
        await until(() => proxy.accepted - before >= open); // each of its sessions is another one
        await root.query('set global read_only = 0');
        await enqueue(root, '2', '3');
        await transport.until(() => transport.published.length === 4, 60_000);
        expect(transport.texts).toEqual(['0', '1', '2', '3']);
        expect(await harness.secretsTold()).toEqual([]);
      });
    });
});
