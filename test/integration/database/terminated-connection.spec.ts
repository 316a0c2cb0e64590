import { DataSource } from 'typeorm';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import { DATABASE, SETTINGS } from '../../support/postgres-store.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

const READY_FOR_QUERY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

/** What a server says when an administrator ends the connection. */
function terminated(): Buffer {
  const fields = 'SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0';
  const head = Buffer.from([0x45, 0, 0, 0, 0]);
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, Buffer.from(fields)]);
}

/** A new connection's first "ready" and its end arrive in one piece. */
function hostile(proxy: TcpProxy): TcpProxy['intercept'] {
  return () => {
    let greeted = false;
    const down = (bytes: Buffer): Buffer => {
      const isReady = !greeted && bytes.subarray(-READY_FOR_QUERY.length).equals(READY_FOR_QUERY);
      greeted ||= isReady;
      if (!isReady) return bytes;
      setImmediate(() => proxy.cut('fin'));
      return Buffer.concat([bytes, terminated()]);
    };
    return { up: (bytes) => bytes, down };
  };
}

describeWith('postgres', 'a connection that is ended in the moment in which it is ready', () => {
  let harness: Harness;
  let proxy: TcpProxy;
  let through: DataSource;

  beforeEach(async () => {
    harness = await createHarness('postgres', { buckets: 4 });
    proxy = await TcpProxy.start(harness.database.url);
    const url = new URL(harness.database.url);
    url.port = String(proxy.port);
    through = await new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
  });
  afterEach(async () => {
    await through.destroy().catch(() => undefined);
    await harness.close();
    await proxy.close();
  });

  it('E2: fails one statement of the relay, not the process', async () => {
    const { store } = harness.relay({}, {}, { dataSource: through });
    await store.ready.flush();
    const { intercept } = proxy;
    proxy.intercept = hostile(proxy);
    proxy.cut();
    for (let n = 0; n < 3; n += 1) await expect(store.ready.flush()).rejects.toThrow();
    proxy.intercept = intercept;
    await store.ready.flush();
  });
});

describeWith('postgres', 'a connection that is lost in the moment in which it begins to listen', () => {
  it('E2: fails the listener, which says nothing after that', async () => {
    const harness = await createHarness('postgres', { buckets: 4 });
    const proxy = await TcpProxy.start(harness.database.url);
    const url = new URL(harness.database.url);
    url.port = String(proxy.port);
    const application = await new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
    const settings = { ...SETTINGS, ...DATABASE, onPublished: 'delete' as const };
    const database = openPostgresDatabase(application, {
      ...settings,
      statementTimeout: 120_000,
      idleWithLocks: 120_000,
      connectTimeout: 120_000,
    });
    const opened = database as unknown as { checkOut(extraSettings: string): Promise<unknown> };
    const checkOut = opened.checkOut.bind(database);
    opened.checkOut = async (extraSettings) => {
      const client = await checkOut(extraSettings);
      proxy.set({ up: 'hold' }); // the next thing it sends is LISTEN
      return client;
    };
    const lost: unknown[] = [];
    const nothing = (): void => undefined;
    try {
      const listening = database.listen?.('nobody', nothing, (error) => lost.push(error)) as Promise<unknown>;
      listening.catch(nothing);
      await until(() => proxy.heldUp > 0);
      proxy.cut('rst');
      await expect(listening).rejects.toThrow('RESET');
      expect(lost).toEqual([]);
    } finally {
      proxy.heal();
      await database.close();
      await application.destroy();
      await proxy.close();
      await harness.close();
    }
  });
});
