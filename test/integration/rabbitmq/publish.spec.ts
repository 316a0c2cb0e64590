import { Socket } from 'node:net';
import amqp from 'amqplib';
import type { OutboxMessage, OutboxTransport, PublishFailure, PublishResult } from '../../../lib/index.js';
import { keyText } from '../../../lib/message/key-bytes.js';
import { rabbitmq, type RabbitMqOptions, type RabbitMqPublishError } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';

describeWith('rabbitmq', 'rabbitmq() on a real broker', () => {
  let observer: RabbitMqObserver;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => void (observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'))));
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.close?.()));
    await observer.close();
  });

  async function transportOf(
    options: Partial<RabbitMqOptions> = {},
    ...dependencies: unknown[]
  ): Promise<OutboxTransport> {
    const source = options.connection === undefined ? { url: requiredUrl('rabbitmq') } : {};
    const transport = await rabbitmq({ ...source, ...options }).create(...dependencies);
    opened.push(transport);
    await transport.connect?.(AbortSignal.timeout(60_000));
    return transport;
  }
  const publish = async (transport: OutboxTransport, ...batch: OutboxMessage[]) =>
    (await probePublish(transport, batch, { timeout: 60_000 })).results;
  const blames = (results: readonly PublishResult[]) => results.map((result) => (result.ok ? 'ok' : result.blame));
  const reason = (result: PublishResult | undefined) =>
    ((result as PublishFailure).error as RabbitMqPublishError).reason;

  it('has TCP_NODELAY on, so that a small message waits for nothing', async () => {
    const set = jest.spyOn(Socket.prototype, 'setNoDelay');
    try {
      await transportOf();
      expect(set.mock.calls).toEqual([[true]]);
    } finally {
      set.mockRestore();
    }
  });

  it('delivers properties, headers and bytes as a consumer expects them', async () => {
    const [exchange, queue] = [await observer.exchange(), await observer.queue({ maxPriority: 10 })];
    await observer.channel.bindQueue(queue, exchange, 'orders.#');
    const message = contractMessage({
      topic: 'orders.created.eu',
      key: 'order-1',
      type: 'order.created',
      version: 2,
      payload: '{"id":1}',
      headers: { traceparent: '00-ab-cd-01', many: ['a', Buffer.of(1, 2)], raw: Buffer.of(255, 0) },
      options: { rabbitmq: { priority: 3, expiration: 60_000, correlationId: 'c-1', replyTo: 'answers' } },
    });
    expect(blames(await publish(await transportOf({ exchange, appId: 'shop' }), message))).toEqual(['ok']);
    const [found] = await observer.received(queue, 1);
    expect(found!.content.toString()).toBe('{"id":1}');
    expect(found!.fields).toMatchObject({ exchange, routingKey: 'orders.created.eu' });
    expect(found!.properties).toMatchObject({
      messageId: message.id,
      type: 'order.created',
      contentType: 'application/json',
      timestamp: Math.floor(message.createdAt.getTime() / 1000),
      deliveryMode: 2,
      appId: 'shop',
      priority: 3,
      expiration: '60000',
      correlationId: 'c-1',
      replyTo: 'answers',
    });
    expect(found!.headers).toEqual({
      id: message.id,
      type: 'order.created',
      version: '2',
      time: message.createdAt.toISOString(),
      key: 'order-1',
      traceparent: '00-ab-cd-01',
      many: ['a', Buffer.of(1, 2)],
      raw: Buffer.of(255, 0),
    });
  });

  it('delivers a key of bytes that are no UTF-8 as text: their digits', async () => {
    const topic = await observer.queue();
    const keys = [Buffer.of(0xff, 1), Buffer.of(0xfe, 1)].map(keyText);
    const sent = keys.map((key) => contractMessage({ topic, key }));
    expect(blames(await publish(await transportOf(), ...sent))).toEqual(['ok', 'ok']);
    const found = await observer.received(topic, 2);
    expect(found.map(({ headers }) => headers?.['key'])).toEqual(['\ufffdff01', '\ufffdfe01']);
  });

  it('F8: of two messages with one id the one that no queue took is never ok', async () => {
    const topic = await observer.queue();
    const batch = Array.from({ length: 2_000 }, () => contractMessage({ topic })).flatMap((taken) => [
      taken,
      contractMessage({ topic: `${topic}-nowhere`, id: taken.id }),
    ]);
    // What need not be written is confirmed at once, together with what came back.
    const results = await publish(await transportOf({ persistent: false }), ...batch);
    expect(new Set(blames(results.filter((_, index) => index % 2 === 1)))).toEqual(new Set(['transport']));
  });

  it('believes the broker when told not to be mandatory', async () => {
    const transport = await transportOf({ mandatory: false });
    expect(blames(await publish(transport, contractMessage({ topic: `${observer.prefix}-nowhere` })))).toEqual(['ok']);
  });

  it.each([
    ['a type of 300 bytes', { type: 't'.repeat(300) }],
    ['headers of 70 KB', { headers: { x: 'y'.repeat(70_000) } }],
    ['a routing key of 256 bytes', { options: { rabbitmq: { routingKey: 'r'.repeat(256) } } }],
    ['a priority of 1000', { options: { rabbitmq: { priority: 1000 } } }],
  ])('gives up for good on %s, without a mix-up of the confirms behind it', async (_, fields) => {
    const [topic, transport] = [await observer.queue(), await transportOf()];
    const nowhere = contractMessage({ topic: `${topic}-nowhere` });
    const results = await publish(
      transport,
      contractMessage({ topic }),
      contractMessage({ topic, ...fields }),
      nowhere,
      contractMessage({ topic }),
    );
    expect(blames(results)).toEqual(['ok', 'message', 'transport', 'ok']);
    expect(results[1]).toMatchObject({ final: true });
    expect(reason(results[2])).toBe('unroutable');
  });

  it('publishes nothing by a routingKey() that gives no key, where every key would be taken, and charges it not for good', async () => {
    const [exchange, queue] = [await observer.exchange(), await observer.queue()];
    await observer.channel.bindQueue(queue, exchange, '#');
    const keys: Record<string, string> = { known: 'orders' };
    const transport = await transportOf({ exchange, routingKey: ({ type }) => keys[type]! });
    const [unknown, known] = ['unknown', 'known'].map((type) => contractMessage({ topic: queue, type }));
    const results = await publish(transport, unknown!, known!);
    expect(blames(results)).toEqual(['message', 'ok']);
    expect((results[0] as PublishFailure).final).toBeUndefined();
    expect((await observer.receivedUpTo(queue, known!.id)).map(({ id }) => id)).toEqual([known!.id]);
  });

  it('reports each message when its confirm comes', async () => {
    const [topic, transport] = [await observer.queue(), await transportOf()];
    const second = contractMessage({ topic, key: 'a' });
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      const batch = [contractMessage({ topic, key: 'a' }), contractMessage({ topic, key: 'b' })];
      // The key's next message is handed over from within the report, as the relay does.
      void probePublish(transport, batch, {
        timeout: 60_000,
        onReport: (index) => {
          order.push(batch[index]!.key!);
          if (batch[index]!.key === 'a') void publish(transport, second).then(() => resolve(void order.push('a2')));
        },
      });
    });
    expect(order.at(-1)).toBe('a2');
    expect(
      (await observer.received(topic, 3))
        .filter(({ key }) => key === 'a')
        .map(({ id }) => id)
        .at(-1),
    ).toBe(second.id);
  });

  it('asserts a topology when asked, as data or by a function', async () => {
    const [exchange, queue] = [observer.unusedName(), await observer.queue()];
    const topology = {
      assertExchange: [{ name: exchange, type: 'direct' }],
      assertQueue: [{ name: queue }],
      bind: [{ queue, exchange, routingKey: 'a' }],
    };
    expect(blames(await publish(await transportOf({ exchange, topology }), contractMessage({ topic: 'a' })))).toEqual([
      'ok',
    ]);
    const byFunction = await transportOf({
      exchange,
      topology: async (channel) => void (await channel.bindQueue(queue, exchange, 'b')),
    });
    expect(blames(await publish(byFunction, contractMessage({ topic: 'b' })))).toEqual(['ok']);
    await expect(transportOf({ topology: { assertExchange: [{ name: exchange, type: 'fanout' }] } })).rejects.toThrow(
      '406',
    );
  });

  it.each(['object', 'token', 'factory'] as const)(
    'publishes over a connection of the application and leaves it open: %s',
    async (how) => {
      const connection = await amqp.connect(requiredUrl('rabbitmq'));
      const token = Symbol('connection');
      const option = {
        object: connection,
        token,
        factory: { inject: [token], useFactory: (given: typeof connection) => given },
      }[how];
      expect(rabbitmq({ connection: option }).inject).toEqual(how === 'object' ? [] : [token]);
      const [topic, transport] = [await observer.queue(), await transportOf({ connection: option }, connection)];
      expect(blames(await publish(transport, contractMessage({ topic })))).toEqual(['ok']);
      await transport.reset?.();
      await transport.connect?.(AbortSignal.timeout(60_000));
      expect(blames(await publish(transport, contractMessage({ topic })))).toEqual(['ok']);
      await transport.close?.();
      const own = await connection.createChannel();
      expect(await own.checkQueue(topic)).toMatchObject({ messageCount: 2 });
      await connection.close();
    },
  );
});
