import { transformSync } from '@swc/core';
import type { OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common';
import { blocksIn } from '../../readme/documents.js';
import { describeWithOwnRedis, OwnRedis } from '../../support/redis-server.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

type Reader = OnApplicationBootstrap & OnApplicationShutdown;
type ReaderClass = new (inbox: { once(id: string): Promise<void> }) => Reader;

/** As the page has it, but a read waits for as long as it takes. */
function readerOfThePage(): ReaderClass {
  const { text } = blocksIn('ts', '').find(({ file }) => file === 'src/billing/orders.reader.ts')!;
  const { code } = transformSync(text.replace("'BLOCK', 1_000", "'BLOCK', 0"), {
    jsc: { target: 'es2022', parser: { syntax: 'typescript', decorators: true }, transform: { legacyDecorator: true } },
    module: { type: 'commonjs' },
  });
  const exported = {} as { OrdersReader: ReaderClass };
  new Function('require', 'exports', code)(require, exported);
  return exported.OrdersReader;
}

describeWithOwnRedis('the reader of the page', () => {
  it('an answer that was lost with its connection: its entries are read again, before newer ones', async () => {
    const server = await OwnRedis.start();
    const proxy = await TcpProxy.start(server.url);
    const add = (id: string) =>
      server.client.xadd('shop.orders', '*', 'id', id, 'type', 'order.placed', 'payload', '{}');
    const pending = async () => Number(((await server.client.xpending('shop.orders', 'billing')) as [number])[0]);
    const waits = async () => (await server.client.info('clients')).includes('blocked_clients:1');
    await server.client.xgroup('CREATE', 'shop.orders', 'billing', '0', 'MKSTREAM');
    process.env['REDIS_URL'] = `redis://127.0.0.1:${proxy.port}`;
    const got: string[] = [];
    const reader = new (readerOfThePage())({ once: async (id) => void got.push(id) });
    delete process.env['REDIS_URL'];
    void reader.onApplicationBootstrap();
    await add('first');
    await until(async () => got.length === 1 && (await waits()));
    proxy.set({ down: 'drop' });
    await add('lost');
    await until(async () => (await pending()) === 1);
    await add('later');
    proxy.cut();
    proxy.heal();
    await until(() => got.includes('later'));
    expect(got).toEqual(['first', 'lost', 'later']);
    await until(async () => (await pending()) === 0);
    await until(waits);
    void reader.onApplicationShutdown();
    await proxy.close();
    await server.remove();
  });
});
