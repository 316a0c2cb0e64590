import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientRMQ } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { systemClock } from '../../lib/dispatch/clock.js';
import type { OutboxTransport } from '../../lib/publish/transport.js';
import { contractMessage } from '../../lib/testing/contract-message.js';
import { probePublish } from '../../lib/testing/publish-probe.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

describeWith('rabbitmq', 'clientProxy() over ClientRMQ and a broker that comes back', () => {
  let observer: RabbitMqObserver;
  let proxy: TcpProxy;
  let transport: OutboxTransport;
  beforeEach(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
    const [exchange, fine, full] = [
      await observer.exchange(),
      await observer.queue(),
      await observer.queue({ maxLength: 1, overflow: 'reject-publish' }),
    ];
    await observer.channel.bindQueue(fine, exchange, 'fine');
    await observer.channel.bindQueue(full, exchange, 'full');
    observer.channel.sendToQueue(full, Buffer.from('first'));
    await until(async () => (await observer.depth(full)) === 1);
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${proxy.host}:${proxy.port}`;
    // The pattern is the routing key.
    const client = new ClientRMQ({
      urls: [url.href],
      exchange,
      wildcards: true,
      socketOptions: { reconnectTimeInSeconds: 1 },
    });
    transport = await clientProxy({ client }).create();
    await transport.connect!(AbortSignal.timeout(20_000));
  });
  afterEach(async () => {
    await transport.close?.();
    await proxy.close();
    await observer.close();
  });

  /** Of a message that no queue takes, one that is refused, and one that arrives. */
  const verdicts = async (): Promise<unknown[]> => {
    const batch = ['nowhere', 'full', 'fine'].map((topic) => contractMessage({ topic }));
    const { results } = await probePublish(transport, batch, { timeout: 20_000 });
    return results.map((result) => {
      if (result.ok) return 'ok';
      const { reason, code } = result.error as { reason?: string; code?: string };
      return [result.blame, reason, code];
    });
  };
  const BELIEVED = [['message', 'unroutable', 'PUBLISH_REJECTED'], ['message', 'nacked', 'PUBLISH_REJECTED'], 'ok'];
  const NOT_BELIEVED = [
    ['transport', 'unroutable', 'TRANSPORT_UNAVAILABLE'],
    ['transport', 'nacked', 'TRANSPORT_UNAVAILABLE'],
    'ok',
  ];
  const state = (wanted: string): Promise<void> =>
    new Promise((resolve) => {
      transport.onState = (said) => (said === wanted ? resolve() : undefined);
    });
  const lost = async (): Promise<void> => {
    const down = state('down');
    proxy.cut();
    await down;
  };

  it.each([
    [
      'when the client connects again by itself',
      async () => {
        await lost();
        await state('up');
      },
    ],
    [
      'when the relay throws the connection away and makes another',
      async () => {
        await lost();
        await transport.reset!();
      },
    ],
    [
      'when all that was seen of the outage is a connection that was refused',
      async () => {
        await transport.reset!();
        await proxy.refuse();
        await expect(transport.connect!(AbortSignal.timeout(10_000))).rejects.toThrow();
        await proxy.accept();
      },
    ],
  ])('C16: charges nobody for what it does not find yet, and believes it later: %s', async (_, outage) => {
    expect(await verdicts()).toEqual(BELIEVED);
    await outage();
    expect(await verdicts()).toEqual(NOT_BELIEVED);
    const now = systemClock.monotonic();
    const later = jest.spyOn(systemClock, 'monotonic').mockReturnValue(now + 10_000);
    try {
      expect(await verdicts()).toEqual(BELIEVED);
    } finally {
      later.mockRestore();
    }
  });

  it('C16: a connection that we ended ourselves is no outage', async () => {
    expect(await verdicts()).toEqual(BELIEVED);
    await transport.reset!();
    expect(await verdicts()).toEqual(BELIEVED);
  });

  it('C6: nothing that waits in the kernel’s buffer is sent when its publish has failed', async () => {
    proxy.stall();
    const payload = JSON.stringify('x'.repeat(20_000));
    const batch = Array.from({ length: 250 }, (_, n) => contractMessage({ topic: 'fine', key: `k${n}`, payload }));
    const { results } = await probePublish(transport, batch, { timeout: 1_000 });
    expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
    const { bytesUp } = proxy;
    proxy.resume();
    await until(() => proxy.open === 0);
    // What the other side's kernel had taken is on its way.
    expect(proxy.bytesUp - bytesUp).toBeLessThan(500_000);
  });
});
