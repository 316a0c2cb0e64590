import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import amqp from 'amqplib';
import type { OutboxTransport, PublishResult } from '../../../lib/transports/transport.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';

describeWith('rabbitmq', 'rabbitmq() with one part of it amiss', () => {
  let observer: RabbitMqObserver;
  const opened: OutboxTransport[] = [];
  const silent: { server: Server; sockets: Socket[] }[] = [];
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((transport) => transport.close?.()));
    for (const { server, sockets } of silent.splice(0)) {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });
  afterAll(() => observer.close());

  async function create(options: Partial<RabbitMqOptions>): Promise<OutboxTransport> {
    const transport = await rabbitmq(options as RabbitMqOptions).create();
    opened.push(transport);
    return transport;
  }
  /** Takes connections, and says nothing: a frozen machine, a load balancer with nobody behind it. */
  async function silentServer(): Promise<string> {
    const sockets: Socket[] = [];
    const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined)));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    silent.push({ server, sockets });
    return `amqp://guest:guest@127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  const blames = (results: readonly PublishResult[]) => results.map((result) => (result.ok ? 'ok' : result.blame));

  it.each([1, 2])(
    'M2: %d silent servers in front are passed, though each attempt is given up while one is asked',
    async (count) => {
      const holes = await Promise.all(Array.from({ length: count }, silentServer));
      const transport = await create({ urls: [...holes, requiredUrl('rabbitmq')], connectTimeout: 10_000 });
      // Shorter than it takes to give up one server.
      for (let n = 0; n < count; n += 1) await expect(transport.connect?.(AbortSignal.timeout(300))).rejects.toThrow();
      // Half of the time that one server has: an attempt that began with a silent one would not be through.
      await transport.connect?.(AbortSignal.timeout(5_000));
      expect(transport.health?.()).toMatchObject({ up: true });
    },
  );

  it.each(['one channel in all', 'a connection whose other channels are in use'])(
    'M3: with %s, a message whose exchange is missing stops nobody, and is found each time',
    async (what) => {
      const url = (channels: number): string => `${requiredUrl('rabbitmq')}?channelMax=${channels}`;
      let connection: amqp.ChannelModel | undefined;
      if (what !== 'one channel in all') {
        connection = await amqp.connect(url(2));
        connection.on('error', () => undefined);
        await connection.createChannel();
      }
      const transport = await create(connection === undefined ? { url: url(1) } : { connection });
      await transport.connect?.(AbortSignal.timeout(10_000));
      const good = await observer.queue();
      const poison = contractMessage({ topic: good, options: { rabbitmq: { exchange: observer.unusedName() } } });
      const innocents = Array.from({ length: 5 }, (_, n) => contractMessage({ topic: good, key: `k${n}` }));
      const batch = [poison, ...innocents];
      for (let n = 0; n < 3; n += 1) {
        let left = batch;
        // As the relay does: those that were with it go singly.
        for (const one of [batch, ...batch.map((message) => [message])]) {
          const { results } = await probePublish(transport, one, { timeout: 10_000 });
          left = left.filter((message) => !one.some((sent, at) => sent === message && results[at]?.ok === true));
          const atFault = one.filter((_, at) => !['ok', 'collateral'].includes(blames(results)[at] as string));
          expect(atFault).toEqual(one.includes(poison) ? [poison] : []);
        }
        expect(left).toEqual([poison]);
      }
      expect(transport.health?.()).toMatchObject({ up: true });
      await connection?.close();
    },
  );
});
