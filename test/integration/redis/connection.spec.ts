import type { OutboxTransport } from '../../../lib/index.js';
import { redis, type RedisOptions } from '../../../lib/transports/redis/index.js';
import { describeWithOwnRedis, OwnRedis } from '../../support/redis-server.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { until, untilDone } from '../../support/until.js';

describeWithOwnRedis('redis() and a server that goes', () => {
  const servers: OwnRedis[] = [];
  const opened: OutboxTransport[] = [];
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close!();
    for (const server of servers.splice(0)) await server.remove();
  });
  const start = async (config: Record<string, string> = {}, ...more: string[]): Promise<OwnRedis> => {
    const server = await OwnRedis.start(config, ...more);
    servers.push(server);
    return server;
  };
  const open = async (options: RedisOptions): Promise<OutboxTransport> => {
    const transport = await redis(options).create();
    opened.push(transport);
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  };
  const some = (count: number, topic: string, payload = '{}') =>
    Array.from({ length: count }, (_, n) => contractMessage({ topic, key: `k${n}`, payload }));
  const idsIn = async (server: OwnRedis, stream: string): Promise<string[]> =>
    (await server.client.xrange(stream, '-', '+')).map(([, fields]) => fields[fields.indexOf('id') + 1]!);

  it('C1: killed with 500 messages on their way: what was ok is in the file, nobody is charged, and it goes on when the server is back', async () => {
    const server = await start({ appendonly: 'yes', appendfsync: 'always' });
    const transport = await open({ url: server.url });
    const batch = some(500, 'orders', 'x'.repeat(5_000));
    expectAllOk(await publish(transport, batch.slice(0, 250)));
    await server.client.call('CLIENT', 'PAUSE', '60000', 'WRITE'); // takes them, and does nothing
    const publishing = publish(transport, batch);
    await until(async () => /blocked_clients:1/.test(await server.client.info('clients')));
    await server.kill();
    const results = await publishing;
    expect(results.every((result) => !result.ok && result.blame === 'transport')).toBe(true);
    expect(transport.health!().up).toBe(false);
    await server.start();
    await untilDone(async () => expectAllOk(await publish(transport, batch)));
    const ids = await idsIn(server, 'orders');
    expect(ids.slice(0, 250).sort()).toEqual(
      batch
        .slice(0, 250)
        .map(({ id }) => id)
        .sort(),
    );
    expect(ids.slice(-500).sort()).toEqual(batch.map(({ id }) => id).sort());
  });

  it('C6: a server that stands still: nobody is charged, and nothing is sent twice by itself when it goes on', async () => {
    const server = await start();
    // What ioredis gives up by itself may still be sent.
    const transport = await open({ url: server.url, client: { socketTimeout: 50, commandTimeout: 50 } });
    const [first, late, after] = some(3, 'orders');
    expectAllOk(await publish(transport, [first!]));
    server.signal('SIGSTOP');
    const results = await publish(transport, [late!], 300);
    server.signal('SIGCONT');
    expect(results).toMatchObject([{ ok: false, blame: 'transport', error: { code: 'PUBLISH_TIMEOUT' } }]);
    expectAllOk(await publish(transport, [after!]));
    const ids = await idsIn(server, 'orders');
    expect(ids.filter((id) => id !== late!.id)).toEqual([first!.id, after!.id]);
    expect(ids.indexOf(late!.id)).toBeLessThan(2); // before the one that came later, or not at all
  });

  it('waitReplicas: fewer replicas are no "published"; with enough of them it is', async () => {
    const master = await start();
    const transport = await open({ url: master.url, waitReplicas: { replicas: 1, timeout: 50 } });
    const bad = 'no-stream';
    await master.client.set(bad, '');
    const batch = [...some(2, 'orders'), ...some(1, bad)];
    const few = { ok: false, blame: 'transport', error: expect.objectContaining({ code: 'TRANSPORT_UNAVAILABLE' }) };
    const refused = { blame: 'transport', destination: `stream "${bad}"` };
    expect(await publish(transport, batch)).toMatchObject([few, few, refused]);
    const replica = await start({ replicaof: `127.0.0.1 ${master.port}` });
    await until(async () => (await replica.client.info('replication')).includes('master_link_status:up'));
    const longer = await open({ url: master.url, waitReplicas: { replicas: 1, timeout: 60_000 } });
    expect(await publish(longer, batch)).toMatchObject([{ ok: true }, { ok: true }, refused]);
    expect((await idsIn(replica, 'orders')).sort()).toEqual(
      [batch[0]!, batch[1]!, batch[0]!, batch[1]!].map(({ id }) => id).sort(),
    );
  });

  it('sentinels: after a failover it publishes to the new master', async () => {
    const master = await start();
    const replica = await start({ replicaof: `127.0.0.1 ${master.port}` });
    const link = async (server: OwnRedis) =>
      (await server.client.info('replication')).includes('master_link_status:up');
    await until(() => link(replica));
    const sentinel = await start(
      {
        'sentinel monitor shop 127.0.0.1': `${master.port} 1`,
        'sentinel down-after-milliseconds': 'shop 1000',
      },
      '--sentinel',
    );
    const client = { sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: 'shop' };
    const transport = await open({ client });
    expectAllOk(await publish(transport, some(1, 'before')));
    const promoted = async (): Promise<boolean> => (await replica.client.info('replication')).includes('role:master');
    await until(async () =>
      String(await sentinel.client.call('SENTINEL', 'replicas', 'shop')).includes(String(replica.port)),
    );
    await untilDone(() => sentinel.client.call('SENTINEL', 'failover', 'shop'));
    await until(promoted);
    // The old master takes messages until it is told, and they are lost.
    await until(async () => {
      await publish(transport, some(1, 'after'));
      return (await replica.client.xlen('after')) > 0;
    });
  });

  it('all sentinels are away: says so at once', async () => {
    const client = { sentinels: [{ host: '127.0.0.1', port: 1 }], name: 'shop' };
    await expect(open({ client })).rejects.toThrow('All sentinels are unreachable');
  });
});
