import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientRMQ, RmqRecord } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { OutboxTransport } from '../../../lib/index.js';
import {
  contractMessage,
  type ContractRunner,
  type ReceivedMessage,
  faultsOf,
  publish,
  expectAllOk,
} from '../../support/publish.js';
import { describeTransportContract } from '../../../lib/testing/index.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { QueueReader } from '../../support/queue-reader.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

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
    faults: faultsOf(() => proxy),
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
      expectAllOk(await publish(transport, [message]));
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
      for (const message of batch) expectAllOk(await publish(transport, [message]));
      await until(() => reader.messages.length === 3);
      expect(reader.packets().map(({ data }) => data)).toEqual(['plain', { type: 'Buffer', data: [0, 255] }, null]);
    });

    it('N6: the application sends through the same client beside it, and after its end', async () => {
      const client = rmqClient(reader.queue);
      const own = await transportOf(client);
      expectAllOk(await publish(own, [contractMessage({ topic: 'ours' })]));
      await client.emit('mine', { plain: true }).toPromise();
      await own.close?.();
      await client.emit('later', { plain: true }).toPromise();
      await until(() => reader.messages.length === 3);
      expect(reader.packets().slice(1)).toEqual(
        ['mine', 'later'].map((pattern) => ({ pattern, data: { plain: true } })),
      );
      await client.close();
    });
  });

  describe('what is sent is what emit() sends', () => {
    const record = (): unknown => new RmqRecord({ n: 1 }, { headers: { 'x-own': '1' }, priority: 2, messageId: 'own' });
    class Packet {
      constructor(readonly packet: object) {}
      toJSON(): unknown {
        return { wrapped: this.packet };
      }
    }
    const wrapping = { serialize: (packet: object) => new Packet(packet) };

    it.each<[what: string, client: (queue: string, exchange: string) => object, record?: () => unknown]>([
      ['to its queue', () => ({ headers: { 'x-client': 'app' } })],
      ['to its queue, which is bound to an exchange', (_, exchange) => ({ exchange, routingKey: 'bound' })],
      ['by the pattern to its exchange', (_, exchange) => ({ exchange, wildcards: true })],
      ['to the exchange of the name of its queue', (queue) => ({ queue: `${queue}.x`, wildcards: true })],
      ['to a fanout exchange', (_, exchange) => ({ exchange: `${exchange}.all`, exchangeType: 'fanout' })],
      ['with a serializer of its own', () => ({ serializer: wrapping }), () => ({ n: 1 })],
      ['with a record that has an id', () => ({ headers: { 'x-client': 'app', 'x-own': '0' } }), record],
    ])('%s', async (_, more, make = () => new RmqRecord({ n: 1 }, { messageId: 'own' })) => {
      const [reader, observer] = [
        await new QueueReader().start(),
        await RabbitMqObserver.connect(requiredUrl('rabbitmq')),
      ];
      const options = more(reader.queue, await observer.exchange()) as { queue?: string; exchange?: string };
      const client = rmqClient(reader.queue, undefined, { persistent: true, ...options });
      client.setOnDispatchHook?.((packet) => Object.assign(packet, { metadata: { trace: 'tr' } }));
      const transport = await transportOf(client, { record: make });
      await transport.connect!(AbortSignal.timeout(60_000)); // makes the exchange
      const exchange = options.exchange ?? options.queue;
      if (exchange !== undefined) await reader.bind(exchange, 'order.placed');
      await client.emit('order.placed', make()).toPromise();
      expectAllOk(await publish(transport, [contractMessage({ topic: 'order.placed' })]));
      await until(() => reader.messages.length === 2);
      const [nest, ours] = reader.messages.map(({ content, properties, fields: { exchange: to, routingKey } }) => ({
        content: content.toString(),
        properties,
        ...{ to, routingKey },
      }));
      const { messageId } = ours!.properties;
      expect(ours).toEqual({
        ...nest,
        properties: { ...nest!.properties, headers: ours!.properties.headers, messageId },
      });
      expect(ours!.properties.headers).toEqual(nest!.properties.headers ?? {});
      await transport.close?.();
      await client.close();
      if (exchange !== undefined) await reader.dropExchange(exchange);
      await observer.close();
      await reader.stop();
    });
  });
});
