import { join } from 'node:path';
import { DataSource } from 'typeorm';
import type { OutboxDispatcher, OutboxStore } from '../../../lib/index.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import type { BucketLeases } from '../../../lib/relay/leases/bucket-leases.js';
import { LossyDisk } from '../../support/lossy-disk.js';
import { describeOnOwnMysqlFamily, type OwnNode } from '../../support/own-database.js';
import { createHarness, newMessage, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

/** Those after the first begin with what a crash left. MySQL takes longer to come up, and has the same relay. */
const CRASHES = { mariadb: 3, mysql: 1 };
/** A lease that outlives a crash, on any machine. */
const LIMITS = { buckets: 4, pollInterval: 20, lease: '5m', publishTimeout: '1s' } as const;
/** Statistics on disk are written under a latch that everybody needs: while the disk stands, nobody would open a table. */
const DURABLE = ['--innodb-flush-log-at-trx-commit=1', '--innodb-stats-persistent=OFF'];

const canMount = LossyDisk.works();
describeOnOwnMysqlFamily(canMount ? [] : ['mount'], 'a server that loses its power', (kind, startServer) => {
  let lossy: LossyDisk;
  let server: OwnNode | undefined;
  let harness: Harness | undefined;
  let transport: ScriptedTransport;
  /** Between the relay and its server. */
  let proxy: TcpProxy | undefined;
  let relays: DataSource | undefined;
  /** How often the relay looked for messages, and asked for them to be on disk. */
  const asked = { fetch: 0, flush: 0 };
  beforeEach(() => Object.assign(asked, { fetch: 0, flush: 0 }));
  beforeAll(() => {
    if (!canMount) throw new Error('This machine mounts nothing.');
    lossy = LossyDisk.mount() as LossyDisk;
  });
  afterEach(async () => {
    lossy?.go();
    await harness?.close().catch(() => undefined); // its server may not have come up again
    await relays?.destroy().catch(() => undefined);
    await proxy?.close();
    await server?.stop();
    harness = server = proxy = relays = undefined;
  });
  afterAll(() => lossy?.remove());

  /** A server whose logs are on that disk, and a relay that stays when it crashes. */
  async function start(name: string, binaryLog: boolean): Promise<[OwnNode, Harness, OutboxDispatcher]> {
    const folder = lossy.folder(name);
    const settings = binaryLog ? [`--log-bin=${join(folder, 'binary')}`, '--sync-binlog=1'] : ['--skip-log-bin'];
    server = await startServer([...DURABLE, ...settings], folder);
    harness = await createHarness(kind, LIMITS, server.url);
    await harness.dataSource.query('create table thing (name varchar(40) primary key) engine = innodb');
    transport = new ScriptedTransport();
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        fetch: (request) => ((asked.fetch += 1), store.ready.fetch(request)),
        flush: (session) => ((asked.flush += 1), store.ready.flush(session)),
      });
    proxy = await TcpProxy.start(server.url, { silent: true });
    const url = new URL(harness.database.url);
    url.host = `${proxy.host}:${proxy.port}`;
    relays = await new DataSource({ ...harness.database.options, url: url.href, logging: false } as never).initialize();
    const { dispatcher } = harness.relay({ default: transport }, {}, { wrapStore, dataSource: relays });
    await dispatcher.start();
    return [server, harness, dispatcher];
  }
  const connect = async ({ database }: Harness): Promise<DataSource> =>
    new DataSource({ ...database.options, logging: false } as never).initialize();
  /** A business row and its message, with the same name, in one transaction. */
  async function order(name: string, source: DataSource, { store, options }: Harness): Promise<void> {
    await source.transaction(async (manager) => {
      await manager.query('insert into thing (name) values (?)', [name]);
      const message = newMessage({ key: name.split(':')[0] as string, payload: Buffer.from(name) }, options.buckets);
      await store.writer.insert(transactionExecutor(manager.queryRunner as never), [message]);
    });
  }
  const things = async (source: DataSource): Promise<string[]> =>
    ((await source.query('select name from thing order by name')) as { name: string }[]).map(({ name }) => name);
  /** Everything that is not on the disk is gone, and the server starts again. */
  async function losePower(node: OwnNode): Promise<void> {
    const gone = node.kill();
    lossy.go();
    await gone;
    lossy.restore();
    await node.restart();
  }

  it('A6: what was published is there after a crash, although InnoDB shows a commit before it is on disk', async () => {
    const [node, tables] = await start('seen', false);
    const before: string[] = [];
    for (let crash = 0; crash < CRASHES[kind]; crash += 1) {
      const [application, observer] = [await connect(tables), await connect(tables)];
      before.push(`calm:${crash}`); // the relay of before the crash publishes it
      await order(before.at(-1) as string, application, tables);
      await until(async () => (await tables.count('ready')) === 0);
      const { flush } = asked;
      lossy.stand();
      const names = ['a', 'b', 'c'].map((key) => `${key}:${crash}`);
      const answers = Promise.allSettled(names.map((name) => order(name, application, tables)));
      await until(async () => (await things(observer)).length === before.length + names.length);
      // The relay sees them, too; one that does not wait for the disk publishes them.
      await until(() => asked.flush > flush || transport.texts.some((text) => names.includes(text)));
      await losePower(node);
      expect((await answers).map(({ status }) => status)).toEqual(names.map(() => 'rejected'));
      const after = await connect(tables);
      expect(await things(after)).toEqual(before); // the disk did lag behind: what everybody saw is gone
      expect([...new Set(transport.texts)]).toEqual(before);
      await Promise.all([application, observer, after].map((source) => source.destroy()));
    }
  });

  it('A6: what was read before a machine lost its power is not published when it is back', async () => {
    const [node, tables, dispatcher] = await start('back', false);
    const network = proxy as TcpProxy;
    const [application, observer] = [await connect(tables), await connect(tables)];
    await order('calm:0', application, tables);
    await until(async () => (await tables.count('ready')) === 0);
    lossy.stand();
    // Whatever waits behind a renewal that waits for the disk is not even sent. It is due now.
    (dispatcher.leases as BucketLeases).renewedAt = -Infinity;
    dispatcher.lookAtLeases();
    const renewals = `select 1 from information_schema.processlist where info = 'COMMIT' or info like 'set session autocommit = 1%'`;
    await until(async () => (await observer.query(renewals)).length > 0);
    const { flush } = asked;
    const answer = order('a:0', application, tables).catch(() => 'none');
    await until(() => asked.flush > flush || transport.texts.includes('a:0'));
    network.set({ up: 'drop', down: 'drop' }); // a machine without power says no goodbye
    await losePower(node);
    network.heal();
    network.cut();
    const { fetch } = asked;
    await until(() => asked.fetch >= fetch + 10);
    const after = await connect(tables);
    expect([await answer, await things(after)]).toEqual(['none', ['calm:0']]);
    expect([...new Set(transport.texts)]).toEqual(['calm:0']);
    await Promise.all([application, observer, after].map((source) => source.destroy()));
  });

  it('A6: with a synced binary log nobody sees a commit before it is on disk, so that the relay asks for nothing', async () => {
    const [node, tables] = await start('synced', true);
    const [application, observer] = [await connect(tables), await connect(tables)];
    await order('a:0', application, tables);
    await until(async () => (await tables.count('ready')) === 0);
    const [{ id }] = (await application.query('select connection_id() as id')) as [{ id: string }]; // its only one
    const commit = `select 1 from information_schema.processlist where id = ${id} and info = 'COMMIT'`;
    lossy.stand();
    const answer = order('a:1', application, tables).catch(() => 'none');
    await until(async () => (await observer.query(commit)).length === 1);
    const { fetch } = asked;
    await until(() => asked.fetch >= fetch + 10);
    expect(await things(observer)).toEqual(['a:0']);
    await losePower(node);
    const after = await connect(tables);
    expect([await answer, await things(after), transport.texts, asked.flush]).toEqual(['none', ['a:0'], ['a:0'], 0]);
    await Promise.all([application, observer, after].map((source) => source.destroy()));
  });
});
