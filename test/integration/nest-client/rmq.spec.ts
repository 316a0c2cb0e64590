import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { Controller, Logger, type INestMicroservice, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientRMQ, Ctx, EventPattern, Payload, RmqContext, Transport } from '@nestjs/microservices';
import amqp from 'amqplib';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { assertAllOk } from '../../../lib/testing/transport-contract/run.js';
import { describeTransportContract } from '../../../lib/testing/transport-contract/contract.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import type { ContractRunner, ReceivedMessage } from '../../../lib/testing/transport-contract/harness.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { QueueReader } from '../../support/queue-reader.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

const random = (): string => randomBytes(6).toString('hex');

function rmqClient(queue: string, url = requiredUrl('rabbitmq'), more: object = {}): ClientRMQ {
  return new ClientRMQ({
    urls: [url],
    queue,
    queueOptions: { durable: true },
    socketOptions: { reconnectTimeInSeconds: 1 },
    ...more,
  });
}
async function transportOf(client: ClientRMQ, options: object = {}): Promise<OutboxTransport> {
  return clientProxy({ client, ...options }).create();
}
function through(proxy: TcpProxy): string {
  const url = new URL(requiredUrl('rabbitmq'));
  url.host = `${proxy.host}:${proxy.port}`;
  return url.href;
}

describeWith('rabbitmq', 'clientProxy() over ClientRMQ', () => {
  const queue = new QueueReader();
  let proxy: TcpProxy;

  const harness = {
    faultTimeout: 1_000,
    start: async () => {
      await queue.start();
      proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
    },
    stop: async () => {
      await proxy.close();
      await queue.stop();
    },
    create: () => transportOf(rmqClient(queue.queue, through(proxy))),
    received: async (topic: string, count: number): Promise<ReceivedMessage[]> => {
      const ofTopic = () => queue.messages.filter((_, n) => queue.packets()[n]?.pattern === topic);
      await until(() => ofTopic().length >= count);
      return ofTopic().map(({ properties, content }) => ({
        id: String(properties.messageId),
        payload: content,
        headers: properties.headers as ReceivedMessage['headers'] & object,
      }));
    },
    // A body that is labelled JSON and is none cannot go into Nest's JSON packet.
    poison: (topic: string) => ({ topic, payload: '{"cut' }),
    faults: {
      cut: async () => {
        await proxy.refuse();
        proxy.cut();
      },
      loseRequests: () => proxy.set({ up: 'drop' }),
      loseReplies: () => proxy.set({ down: 'drop' }),
      stall: () => proxy.stall(),
      heal: async () => {
        proxy.resume();
        await proxy.accept();
        proxy.heal();
      },
    },
  };
  // The payload travels as a value inside Nest's packet, not as bytes: own tests below.
  const runner = {
    ...(globalThis as unknown as ContractRunner),
    it: (name: string, body: () => Promise<void>) =>
      /^carries a (payload|tombstone)/.test(name) ? undefined : it(name, body),
  };
  describeTransportContract('clientProxy(ClientRMQ)', harness, runner);

  describe('what arrives', () => {
    let reader: QueueReader;
    let transport: OutboxTransport;
    beforeEach(async () => {
      reader = await new QueueReader().start();
      transport = await transportOf(rmqClient(reader.queue, undefined, { headers: { 'x-client': 'app' } }));
    });
    afterEach(async () => {
      await transport.close?.();
      await reader.stop();
    });

    it('is persistent, has its id, type and headers, and the payload as a value', async () => {
      const message = contractMessage({
        topic: 'order.placed',
        key: 'o-1',
        payload: '{"key":"trap","value":1,"orderId":"o-1"}',
        headers: { traceparent: 'tp', 'x-bytes': Uint8Array.of(0, 255) },
        options: { rabbitmq: { priority: 3, expiration: 60_000, correlationId: 'c-1' } },
      });
      assertAllOk(await probePublish(transport, [message], { timeout: 60_000 }));
      await until(() => reader.messages.length === 1);
      const { properties } = reader.messages[0]!;
      expect(reader.packets()[0]).toEqual({ pattern: 'order.placed', data: { key: 'trap', value: 1, orderId: 'o-1' } });
      expect(properties).toMatchObject({
        deliveryMode: 2,
        messageId: message.id,
        type: 'contract.tested',
        contentType: 'application/json',
        priority: 3,
        expiration: '60000',
        correlationId: 'c-1',
        timestamp: Math.floor(message.createdAt.getTime() / 1000),
      });
      expect(properties.headers).toMatchObject({
        key: 'o-1',
        id: message.id,
        type: 'contract.tested',
        version: '1',
        'content-type': 'application/json',
        time: message.createdAt.toISOString(),
        traceparent: 'tp',
        'x-bytes': Buffer.of(0, 255),
        'x-client': 'app',
      });
    });

    it('carries text, bytes and a tombstone of other content types', async () => {
      const batch = [
        contractMessage({ topic: 't', payload: 'plain', contentType: 'text/plain' }),
        contractMessage({ topic: 't', payload: Uint8Array.of(0, 255), contentType: 'application/octet-stream' }),
        contractMessage({ topic: 't', payload: null }),
      ];
      for (const message of batch) assertAllOk(await probePublish(transport, [message], { timeout: 60_000 }));
      await until(() => reader.messages.length === 3);
      expect(reader.packets().map(({ data }) => data)).toEqual(['plain', { type: 'Buffer', data: [0, 255] }, null]);
    });

    it('does not disturb what the application sends through the same client', async () => {
      const client = rmqClient(reader.queue);
      const own = await transportOf(client);
      await own.connect?.(AbortSignal.timeout(60_000));
      await client.emit('mine', { plain: true }).toPromise();
      await until(() => reader.messages.length === 1);
      expect(reader.packets()[0]).toEqual({ pattern: 'mine', data: { plain: true } });
      expect(reader.messages[0]!.properties.messageId).toBeUndefined();
      await own.close?.();
    });
  });

  describe('failures', () => {
    it('owns the errors of every channel, also when the application had connected the client before', async () => {
      const reader = await new QueueReader().start(false);
      const client = rmqClient(reader.queue);
      await client.connect();
      const transport = await transportOf(client);
      await transport.connect?.(AbortSignal.timeout(60_000));
      const { _channels: channels } = (client as unknown as { client: { _channels: EventEmitter[] } }).client;
      expect(channels.length).toBeGreaterThan(0);
      expect(channels.filter((channel) => channel.listenerCount('error') === 0)).toEqual([]);
      assertAllOk(await probePublish(transport, [contractMessage({ topic: 'a' })], { timeout: 60_000 }));
      await transport.close?.();
      await reader.stop();
    });

    it('says so when the broker has no queue for a confirmed message', async () => {
      const reader = await new QueueReader().start(false);
      const transport = await transportOf(rmqClient(reader.queue));
      assertAllOk(await probePublish(transport, [contractMessage({ topic: 'a' })], { timeout: 60_000 }));
      await reader.drop();
      const { results } = await probePublish(transport, [contractMessage({ topic: 'b' })], { timeout: 60_000 });
      expect(results[0]).toMatchObject({ ok: false, error: { code: 'PUBLISH_REJECTED' } });
      await transport.close?.();
      await reader.stop();
    });

    it('F8: gives each of two messages with one id its result, and what came back is never ok', async () => {
      const [reader, exchange] = [await new QueueReader().start(), `outbox-proxy-${random()}`];
      const client = rmqClient(reader.queue, undefined, { exchange, wildcards: true }); // pattern = routing key
      const transport = await transportOf(client, { concurrency: 1_000 });
      await transport.connect!(AbortSignal.timeout(60_000)); // makes the exchange
      await reader.bind(exchange, 'taken');
      const taken = Array.from({ length: 1_000 }, () => contractMessage({ topic: 'taken' }));
      const batch = taken.flatMap((message) => [message, contractMessage({ topic: 'nowhere', id: message.id })]);
      const { results } = await probePublish(transport, batch, { timeout: 60_000 });
      const blames = results.map((result) => (result.ok ? 'ok' : (result.suspect ?? result.blame)));
      expect(new Set(blames.filter((_, index) => index % 2 === 1))).toEqual(new Set(['destination']));
      expect(blames).not.toContain('transport');
      await transport.close?.();
      await reader.dropExchange(exchange);
      await reader.stop();
    });

    it('C6: sends nothing after the timeout, although amqp-connection-manager resends after its reconnect', async () => {
      const reader = await new QueueReader().start(false);
      const link = await TcpProxy.start(requiredUrl('rabbitmq'));
      const client = rmqClient(reader.queue, through(link));
      const transport = await transportOf(client);
      assertAllOk(await probePublish(transport, [contractMessage({ topic: 'before' })], { timeout: 60_000 }));
      const accepted = link.accepted;
      link.set({ up: 'drop' });
      const outcome = await probePublish(transport, [contractMessage({ topic: 'lost' })], { timeout: 500 });
      expect(outcome.results[0]).toMatchObject({ ok: false, blame: 'transport', error: { code: 'PUBLISH_TIMEOUT' } });
      link.cut();
      link.heal();
      // Longer than the reconnect time of the client: a living one would be back and resend.
      await expect(until(() => link.accepted > accepted, 2_500)).rejects.toThrow('not so within');
      expect(link.open).toBe(0);
      expect(await reader.depth()).toBe(1);
      // The same Nest client works again with the next publish.
      assertAllOk(await probePublish(transport, [contractMessage({ topic: 'after' })], { timeout: 60_000 }));
      expect(await reader.depth()).toBe(2);
      await transport.close?.();
      await link.close();
      await reader.stop();
    });

    it('leaves no connection behind when a broker that says nothing is given up', async () => {
      const link = await TcpProxy.start(requiredUrl('rabbitmq'));
      link.set({ down: 'drop' });
      const transport = await transportOf(rmqClient('nowhere', through(link)));
      const { results } = await probePublish(transport, [contractMessage({ topic: 'a' })], { timeout: 500 });
      expect(results[0]).toMatchObject({ ok: false, blame: 'transport' });
      await until(() => link.open === 0, 60_000);
      const accepted = link.accepted;
      // Longer than the reconnect time of the client.
      await expect(until(() => link.accepted > accepted, 2_500)).rejects.toThrow('not so within');
      await transport.close?.();
      await link.close();
    });

    it('tells the error behind what ClientRMQ rejects with, and blames the transport', async () => {
      const transport = await transportOf(rmqClient('nowhere', 'amqp://127.0.0.1:1'));
      const { rejection, results } = await probePublish(transport, [contractMessage({ topic: 'a' })], {
        timeout: 60_000,
      });
      expect(rejection ?? (results[0] as { error?: unknown }).error).toMatchObject({ code: 'ECONNREFUSED' });
      expect(results[0]).toMatchObject({ ok: false, blame: 'transport' });
      expect(transport.health!()).toMatchObject({ up: false });
      await transport.close?.();
    });

    it('survives a queue that exists with other arguments', async () => {
      const reader = await new QueueReader().start(false);
      const transport = await transportOf(rmqClient(reader.queue, undefined, { queueOptions: { durable: false } }));
      await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow(/PRECONDITION|closed|406/i);
      await transport.close?.();
      await reader.stop();
    });
  });
});

interface Seen {
  data: unknown;
  id: unknown;
  key: unknown;
}
const pattern = `order.placed.${random()}`;
const seen: Seen[] = [];

@Controller()
class OrderEvents {
  @EventPattern<string>(pattern)
  onPlaced(@Payload() data: unknown, @Ctx() context: RmqContext): void {
    const { headers } = (context.getMessage() as amqp.ConsumeMessage).properties;
    seen.push({ data, id: headers?.['id'], key: headers?.['key'] });
  }
}
@Module({ controllers: [OrderEvents] })
class ConsumerModule {}

describeWith('rabbitmq', 'a Nest RMQ consumer', () => {
  it('gets the event as an object', async () => {
    const queue = `outbox-proxy-${random()}`;
    const app: INestMicroservice = await NestFactory.createMicroservice(ConsumerModule, {
      logger: false,
      transport: Transport.RMQ,
      options: { urls: [requiredUrl('rabbitmq')], queue, queueOptions: { durable: true } },
    });
    await app.listen();
    const transport = await transportOf(rmqClient(queue));
    const batch = Array.from({ length: 200 }, (_, n) =>
      contractMessage({ topic: pattern, key: `k-${n}`, payload: JSON.stringify({ n, total: 1.5 }) }),
    );
    assertAllOk(await probePublish(transport, batch, { timeout: 60_000 }));
    const byId = () => new Map(seen.map(({ id, data }) => [id, (data as { n: number }).n]));
    await until(() => byId().size === batch.length);
    expect(byId()).toEqual(new Map(batch.map(({ id }, n) => [id, n])));
    await transport.close?.();
    await app.close();
    await (await new QueueReader(queue).start(false)).stop();
  });
});
