import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import type { INestMicroservice, LoggerService, Type } from '@nestjs/common';
import { ClientRMQ, Ctx, EventPattern, Payload, RmqContext, Transport } from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import type { ConsumeMessage, Channel } from 'amqplib';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { outboxDeserializer, Received, receivedMessage, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { lastValueFrom } from 'rxjs';
import { OutboxService, type TransportOption } from '../../../lib/index.js';
import type { PlainMessage } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { LogLines, startConsumer, startProducer } from '../../support/nest-consumer.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

/** What arrived at one handler. */
interface Arrival {
  readonly data: unknown;
  readonly message: ReceivedMessage | undefined;
  readonly context: RmqContext;
}
type Arrivals = Record<'placed' | 'shipped' | 'echo', Arrival[]>;

/** A fresh class for each test, as the arrivals are its own; `then` is what each handler ends with. */
function ordersController(arrivals: Arrivals, then: (context: RmqContext) => unknown = () => undefined): Type {
  class Orders {
    @EventPattern<string>('order.placed')
    placed(@Payload() data: unknown, @Received() message: ReceivedMessage, @Ctx() context: RmqContext): unknown {
      arrivals.placed.push({ data, message, context });
      return then(context);
    }
    @EventPattern<string>('order.shipped')
    shipped(@Payload() data: unknown, @Received() message: ReceivedMessage, @Ctx() context: RmqContext): unknown {
      arrivals.shipped.push({ data, message, context });
      return then(context);
    }
    @EventPattern<string>('echo')
    echo(@Payload() data: unknown, @Ctx() context: RmqContext): unknown {
      arrivals.echo.push({ data, message: receivedMessage(context), context });
      return then(context);
    }
  }
  return Orders;
}
const ack = (context: RmqContext): void =>
  (context.getChannelRef() as Channel).ack(context.getMessage() as ConsumeMessage);

describeWith(['postgres', 'rabbitmq'], 'a Nest microservice behind rabbitmq()', () => {
  let database: TestDatabase;
  let observer: RabbitMqObserver;
  let exchange: string;
  let queue: string;
  let arrivals: Arrivals;
  const open: (INestMicroservice | TestingModule)[] = [];

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  beforeEach(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    exchange = await observer.exchange();
    queue = await observer.queue();
    await observer.channel.bindQueue(queue, exchange, '#');
    arrivals = { placed: [], shipped: [], echo: [] };
  });
  afterEach(async () => {
    for (const app of open.splice(0)) await app.close();
    await observer.close();
  });
  afterAll(() => database.drop());

  const consume = async (
    options: object,
    controller: Type = ordersController(arrivals),
    logger: LoggerService | false = false,
  ): Promise<void> => {
    const urls = [requiredUrl('rabbitmq')];
    const defaults = { urls, queue, queueOptions: { durable: true }, deserializer: outboxDeserializer() };
    open.push(
      await startConsumer(controller, { transport: Transport.RMQ, options: { ...defaults, ...options } }, logger),
    );
  };
  const produce = async (transport: TransportOption = rabbitmq({ url: requiredUrl('rabbitmq'), exchange })) => {
    const app = await startProducer(database, transport);
    open.push(app);
    const outbox = app.get(OutboxService);
    return async (...messages: PlainMessage[]): Promise<string[]> => {
      const ids: string[] = [];
      for (const message of messages) ids.push(await outbox.enqueueOutsideTransaction(message));
      return ids;
    };
  };
  const placed = (n: number): PlainMessage => ({
    type: 'order.placed',
    topic: 'orders',
    key: `key-${n % 3}`,
    headers: { traceparent: `trace-${n}` },
    payload: { pattern: 'of its own', n },
  });

  it('V1: gets every event by its type, in order, with id, key and headers', async () => {
    await consume({});
    const send = await produce();
    const ids = await send(...Array.from({ length: 50 }, (_, n) => placed(n)));
    await until(() => arrivals.placed.length >= 50);
    expect(arrivals.placed.map(({ message }) => message?.id).sort()).toEqual([...ids].sort());
    for (const key of ['key-0', 'key-1', 'key-2']) {
      const ofKey = arrivals.placed.filter(({ message }) => message?.key === key);
      expect(ofKey.map(({ message }) => message?.id)).toEqual(ids.filter((_, n) => `key-${n % 3}` === key));
    }
    const { data, message } = arrivals.placed.find((arrival) => arrival.message?.id === ids[4]) as Arrival;
    expect(data).toEqual({ pattern: 'of its own', n: 4 });
    expect(message).toMatchObject({
      ...{ id: ids[4], type: 'order.placed', version: 1, key: 'key-1', contentType: 'application/json' },
      payload: { pattern: 'of its own', n: 4 },
      headers: expect.objectContaining({ traceparent: 'trace-4' }),
    });
    expect(Math.abs(Date.now() - (message as ReceivedMessage).time.getTime())).toBeLessThan(600_000);
    expect(JSON.parse(String(message?.bytes))).toEqual(data);
  });

  it('V2: acknowledges by hand; what was not is delivered again, with the same id', async () => {
    const first: Arrivals = { placed: [], shipped: [], echo: [] };
    await consume({ noAck: false, prefetchCount: 1 }, ordersController(first));
    const [id] = await (await produce())(placed(1));
    await until(() => first.placed.length === 1);
    await open.shift()?.close();
    await consume({ noAck: false, prefetchCount: 1 }, ordersController(arrivals, ack));
    await until(() => arrivals.placed.length === 1);
    expect([first, arrivals].map((each) => each.placed[0]?.message?.id)).toEqual([id, id]);
    for (const app of open.splice(0)) await app.close();
    expect(await observer.depth(queue)).toBe(0);
  });

  it('V3: gets tombstones, text, bytes and large payloads as they were', async () => {
    await consume({});
    const send = await produce();
    const bytes = randomBytes(200_000);
    const large = { text: 'ü'.repeat(400_000) };
    const payloads: Pick<PlainMessage, 'payload' | 'contentType'>[] = [
      { payload: null },
      { payload: 'null', contentType: 'application/json' },
      { payload: '{"a": 1.0}', contentType: 'text/plain' },
      { payload: bytes, contentType: 'application/octet-stream' },
      { payload: Buffer.alloc(0), contentType: 'application/octet-stream' },
      { payload: large },
    ];
    await send(...payloads.map((each) => ({ type: 'order.shipped', key: 'one', ...each })));
    await until(() => arrivals.shipped.length === payloads.length);
    expect(arrivals.shipped.map(({ data }) => data)).toEqual([null, null, undefined, undefined, undefined, large]);
    const received = arrivals.shipped.map(({ message }) => message as ReceivedMessage);
    expect(received.map(({ payload }) => payload)).toEqual([null, null, '{"a": 1.0}', bytes, Buffer.alloc(0), large]);
    expect(received[0]?.bytes).toBeNull();
    expect(received[3]?.bytes?.equals(bytes)).toBe(true);
  });

  it.each([
    ['dead-letters', false, /^warn .*event.*order\.lost/i],
    ['logs', true, /^error There is no matching event handler.*order\.lost/],
  ])('V4: %s a type that it does not know (noAck: %s), and names the type', async (_, noAck, sentence) => {
    const dead = await observer.queue();
    queue = await observer.queue({ deadLetterExchange: '', deadLetterRoutingKey: dead });
    await observer.channel.bindQueue(queue, exchange, '#');
    const queueOptions = { durable: true, deadLetterExchange: '', deadLetterRoutingKey: dead };
    const log = new LogLines();
    // Nest has one log in a process: that of the application that was made last.
    const send = await produce();
    await consume({ noAck, queueOptions }, ordersController(arrivals, noAck ? undefined : ack), log);
    const [lost] = await send({ ...placed(1), type: 'order.lost' }, placed(1));
    await until(() => arrivals.placed.length === 1 && log.lines.length > 0);
    expect(log.lines).toEqual([expect.stringMatching(sentence)]);
    if (!noAck) expect((await observer.received(dead, 1)).map(({ id }) => id)).toEqual([lost]);
  });

  it('V5: gets what others send as before, and what a ClientRMQ sends for an outbox', async () => {
    await consume({});
    const client = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue, queueOptions: { durable: true } });
    await lastValueFrom(client.emit('echo', { of: 'Nest' }), { defaultValue: undefined });
    await client.close();
    observer.channel.sendToQueue(queue, Buffer.from('{"pattern":"echo","data":{"of":"amqplib"}}'), {
      ...{ type: 'order.placed', messageId: 'm', contentType: 'application/json', headers: { id: 'm', type: 'x' } },
    });
    const outbox = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue, queueOptions: { durable: true } });
    const [id] = await (
      await produce(clientProxy({ client: outbox }))
    )({
      ...{ type: 'order.placed', topic: 'echo', key: 'k', payload: { of: 'clientProxy' } },
    });
    await until(() => arrivals.echo.length === 3);
    expect(arrivals.echo.map(({ data }) => data)).toEqual([{ of: 'Nest' }, { of: 'amqplib' }, { of: 'clientProxy' }]);
    const [nest, plain, ours] = arrivals.echo.map(({ message }) => message);
    expect([nest, plain]).toEqual([undefined, undefined]);
    expect(ours).toMatchObject({ id, type: 'order.placed', key: 'k', payload: { of: 'clientProxy' } });
    expect(() => ours?.bytes).toThrow(/no bytes here/);
  });

  it('V1: gets CloudEvents, and binds by its patterns with wildcards', async () => {
    const own = await observer.queue();
    class Wild {
      @EventPattern<string>('order.*')
      on(@Received() message: ReceivedMessage, @Payload() data: unknown, @Ctx() context: RmqContext): void {
        arrivals.placed.push({ data, message, context });
      }
    }
    await consume({ queue: own, exchange, exchangeType: 'topic', wildcards: true }, Wild);
    const transport = rabbitmq({ url: requiredUrl('rabbitmq'), exchange, cloudEvents: { source: '/shop' } });
    const [id] = await (await produce(transport))({ type: 'order.placed', key: 'k', payload: 7 });
    await until(() => arrivals.placed.length === 1);
    expect(arrivals.placed).toEqual([
      expect.objectContaining({ data: 7, message: expect.objectContaining({ id, key: 'k', version: 1, payload: 7 }) }),
    ]);
  });

  it('hands to a deserializer of the application what no outbox sent', async () => {
    const otherwise = { deserialize: (data: unknown) => ({ pattern: 'echo', data }) };
    await consume({ deserializer: outboxDeserializer({ otherwise }) });
    observer.channel.sendToQueue(queue, Buffer.from('"plain"'));
    await (
      await produce()
    )(placed(1));
    await until(() => arrivals.placed.length === 1 && arrivals.echo.length === 1);
    expect(arrivals.echo[0]?.data).toBe('plain');
  });
});
