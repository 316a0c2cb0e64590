import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import type { INestMicroservice, LoggerService, Type } from '@nestjs/common';
import {
  ClientRMQ,
  Ctx,
  EventPattern,
  type KafkaContext,
  Payload,
  type RmqContext,
  Transport,
} from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import type { Channel, ConsumeMessage } from 'amqplib';
import { Kafka } from 'kafkajs';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { outboxDeserializer, Received, receivedMessage, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { kafka } from 'nestjs-outbox/kafka';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { lastValueFrom } from 'rxjs';
import { OutboxService, type PlainMessage, type TransportOption } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { LogLines, startConsumer, startProducer } from '../../support/nest-consumer.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';

const JSON_TYPE = 'application/json';
const BYTES_TYPE = 'application/octet-stream';

/** What arrived at one handler. */
interface Arrival {
  readonly pattern: string;
  readonly data: unknown;
  readonly message: ReceivedMessage | undefined;
  readonly context: RmqContext | KafkaContext;
}
type Handle = (arrival: Arrival) => unknown;

/** A handler for each pattern, some of which are known at run time only. */
function controllerOf(patterns: readonly string[], handle: Handle): Type {
  class Orders {}
  for (const pattern of patterns) {
    const value = (data: unknown, message: ReceivedMessage | undefined, context: RmqContext | KafkaContext): unknown =>
      handle({ pattern, data, message, context });
    const on = { value, writable: true, configurable: true };
    Object.defineProperty(Orders.prototype, pattern, on);
    [Payload(), Received(), Ctx()].forEach((decorate, index) => decorate(Orders.prototype, pattern, index));
    EventPattern<string>(pattern)(Orders.prototype, pattern, on);
  }
  return Orders;
}

interface Broker {
  readonly service: Service;
  start(): Promise<void>;
  /** Before each case: a place where nothing is. */
  fresh(): Promise<void>;
  /** After each case. */
  end(): Promise<void>;
  stop(): Promise<void>;
  transport(options?: object): TransportOption;
  server(options: object): object;
  pattern(): string;
  /** Where messages go, whatever their type. */
  topic(): string;
  /** With which Nest keeps the bytes of what is not JSON. */
  readonly keeping: object;
  /** What `@Payload()` gives for those. */
  shown(bytes: Buffer): unknown;
  /** As a program without an outbox. */
  sendPlain(of: string): Promise<unknown>;
}

let observer: RabbitMqObserver;
let exchange: string;
let queue: string;
const RABBITMQ: Broker = {
  service: 'rabbitmq',
  start: async () => undefined,
  async fresh() {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    [exchange, queue] = [await observer.exchange(), await observer.queue()];
    await observer.channel.bindQueue(queue, exchange, '#');
  },
  end: () => observer.close(),
  stop: async () => undefined,
  transport: (options) => rabbitmq({ url: requiredUrl('rabbitmq'), exchange, ...options }),
  server: (options) => {
    const urls = [requiredUrl('rabbitmq')];
    const defaults = { urls, queue, queueOptions: { durable: true }, deserializer: outboxDeserializer() };
    return { transport: Transport.RMQ, options: { ...defaults, ...options } };
  },
  pattern: () => 'order.placed',
  topic: () => 'orders',
  keeping: {},
  shown: () => undefined,
  sendPlain: async (of) =>
    observer.channel.sendToQueue(queue, Buffer.from(JSON.stringify({ pattern: 'order.placed', data: { of } })), {
      ...{ type: 'order.placed', messageId: 'm', contentType: JSON_TYPE, headers: { id: 'm', type: 'x' } },
    }),
};

const topics = new TestTopics();
const groups: string[] = [];
let topic: string;
const KAFKA: Broker = {
  service: 'kafka',
  start: () => topics.start(),
  async fresh() {
    topic = await topics.create();
  },
  end: async () => undefined,
  async stop() {
    await topics.admin.deleteGroups(groups).catch(() => undefined);
    await topics.stop();
  },
  transport: (options) => kafka({ client: kafkaConfig(), ...options }),
  server: (options) => {
    const groupId = `consumer-${randomBytes(5).toString('hex')}`;
    groups.push(`${groupId}-server`);
    const defaults = {
      client: { ...kafkaConfig() },
      consumer: { groupId, maxWaitTimeInMs: 50, retry: { initialRetryTime: 50 } },
      subscribe: { fromBeginning: true },
      deserializer: outboxDeserializer(),
    };
    return { transport: Transport.KAFKA, options: { ...defaults, ...options } };
  },
  pattern: () => topic,
  topic: () => topic,
  keeping: { parser: { keepBinary: true } },
  shown: (bytes) => bytes,
  async sendPlain(of) {
    const producer = new Kafka(kafkaConfig()).producer();
    await producer.connect();
    await producer.send({ topic, messages: [{ value: JSON.stringify({ of }), headers: { id: 'x' } }] });
    await producer.disconnect();
  },
};

describe.each([RABBITMQ, KAFKA])('a Nest microservice behind $service', (broker) => {
  describeWith(['postgres', broker.service], 'and an outbox', () => {
    const open: (INestMicroservice | TestingModule)[] = [];
    let database: TestDatabase;
    let arrivals: Arrival[];
    beforeAll(async () => {
      database = await createTestDatabase('postgres');
      await broker.start();
    });
    beforeEach(async () => {
      arrivals = [];
      await broker.fresh();
    });
    const closeAll = async (): Promise<void> => {
      for (const app of open.splice(0)) await app.close();
    };
    afterEach(async () => {
      await closeAll();
      await broker.end();
    });
    afterAll(async () => {
      await broker.stop();
      await database.drop();
    });

    /** @param then what the handler ends with, for the n-th arrival */
    const consume = async (
      options: object = {},
      then: (arrival: Arrival, arrived: number) => unknown = () => undefined,
      { patterns = [broker.pattern()], logger = false }: { patterns?: string[]; logger?: LoggerService | false } = {},
    ): Promise<void> => {
      const controller = controllerOf(patterns, (arrival) => {
        arrivals.push(arrival);
        expect(receivedMessage(arrival.context)?.id).toBe(arrival.message?.id);
        return then(arrival, arrivals.length);
      });
      open.push(await startConsumer(controller, broker.server(options) as never, logger));
    };
    const produce = async (transport: TransportOption = broker.transport()) => {
      const app = await startProducer(database, transport);
      open.push(app);
      const outbox = app.get(OutboxService);
      return async (...messages: Partial<PlainMessage>[]): Promise<string[]> => {
        const ids: string[] = [];
        for (const message of messages)
          ids.push(
            await outbox.enqueueOutsideTransaction({
              ...{ type: 'order.placed', topic: broker.topic(), payload: { n: 0 } },
              ...message,
            }),
          );
        return ids;
      };
    };
    const ids = (): unknown[] => arrivals.map(({ message }) => message?.id);
    const received = (): ReceivedMessage[] => arrivals.map(({ message }) => message as ReceivedMessage);

    it('V1: gets every event by its pattern, in order, with id, type, key and headers', async () => {
      await consume();
      const send = await produce();
      const sent = await send(
        ...Array.from({ length: 50 }, (_, n) => ({
          ...{ key: `key-${n % 3}`, payload: { n, value: 1, pattern: 'x' }, headers: { traceparent: `trace-${n}` } },
        })),
      );
      await until(() => arrivals.length >= 50);
      for (const key of ['key-0', 'key-1', 'key-2']) {
        const ofKey = received().filter((message) => message.key === key);
        expect(ofKey.map(({ id }) => id)).toEqual(sent.filter((_, n) => `key-${n % 3}` === key));
      }
      const { data, message } = arrivals.find((arrival) => arrival.message?.id === sent[4]) as Arrival;
      expect(data).toEqual({ n: 4, value: 1, pattern: 'x' });
      expect(message).toMatchObject({
        ...{ id: sent[4], type: 'order.placed', version: 1, key: 'key-1', contentType: JSON_TYPE, payload: data },
        headers: expect.objectContaining({ traceparent: 'trace-4' }),
      });
      expect(Math.abs(Date.now() - (message as ReceivedMessage).time.getTime())).toBeLessThan(600_000);
    });

    it('V3: gets tombstones, scalars, text, bytes and large payloads as they were', async () => {
      await consume(broker.keeping);
      const [bytes, empty, large] = [randomBytes(200_000), Buffer.alloc(0), { text: 'ü'.repeat(400_000) }];
      const payloads: Pick<PlainMessage, 'payload' | 'contentType'>[] = [
        { payload: null },
        { payload: 'null', contentType: JSON_TYPE },
        { payload: '"[1]"', contentType: JSON_TYPE },
        { payload: '{"a": 1.0}', contentType: 'text/plain' },
        { payload: bytes, contentType: BYTES_TYPE },
        { payload: empty, contentType: BYTES_TYPE },
        { payload: large },
      ];
      await (
        await produce()
      )(...payloads.map((each) => ({ key: 'one', ...each })));
      await until(() => arrivals.length === payloads.length);
      const shown = [Buffer.from('{"a": 1.0}'), bytes, empty].map((each) => broker.shown(each));
      expect(arrivals.map(({ data }) => data)).toEqual([null, null, '[1]', ...shown, large]);
      expect(received().map(({ payload }) => payload)).toEqual([null, null, '[1]', '{"a": 1.0}', bytes, empty, large]);
      expect(received().map((message) => message.bytes?.length)).toEqual([
        ...[undefined, 4, 5, 10, bytes.length, 0, Buffer.byteLength(JSON.stringify(large))],
      ]);
    });

    it('V5: gets what others send as before', async () => {
      await consume();
      await broker.sendPlain('others');
      await until(() => arrivals.length === 1);
      expect(arrivals[0]).toMatchObject({ data: { of: 'others' }, message: undefined });
    });

    if (broker === KAFKA) {
      it('V3: says so where Nest did not keep the bytes', async () => {
        await consume();
        const payloads = [
          { payload: 'null', contentType: JSON_TYPE },
          { payload: '"[1]"', contentType: JSON_TYPE },
          { payload: null },
          { payload: 'plain', contentType: 'text/plain' },
          { payload: Buffer.from([200, 201]), contentType: BYTES_TYPE },
        ];
        const send = await produce(broker.transport({ cloudEvents: { source: '/shop' } }));
        await send(...payloads.map((each) => ({ key: 'one', ...each })));
        await until(() => arrivals.length === payloads.length);
        expect(arrivals.slice(0, 4).map(({ data }) => data)).toEqual([null, '[1]', null, 'plain']);
        expect(
          received()
            .slice(0, 4)
            .map(({ payload }) => payload),
        ).toEqual([null, '[1]', null, 'plain']);
        expect(received()[2]?.bytes).toBeNull();
        expect(() => received()[4]?.payload).toThrow(/The payload of message .*keepBinary: true/);
      });

      it('V2: gets again, in its place, what its handler failed at', async () => {
        const send = await produce();
        await consume({}, (_, arrived) => (arrived === 2 ? Promise.reject(new Error('not yet')) : undefined));
        const [first, second, third] = await send(...[1, 2, 3].map((n) => ({ key: 'one', payload: n })));
        await until(() => arrivals.length === 4);
        expect(ids()).toEqual([first, second, second, third]);
      });
      return;
    }

    const ack = ({ context }: Arrival): void =>
      ((context as RmqContext).getChannelRef() as Channel).ack(context.getMessage() as ConsumeMessage);

    it('V2: acknowledges by hand; what was not is delivered again, with the same id', async () => {
      await consume({ noAck: false, prefetchCount: 1 });
      const [id] = await (await produce())({ key: 'k' });
      await until(() => arrivals.length === 1);
      await open.shift()?.close();
      await consume({ noAck: false, prefetchCount: 1 }, ack);
      await until(() => arrivals.length === 2);
      expect(ids()).toEqual([id, id]);
      await closeAll();
      expect(await observer.depth(queue)).toBe(0);
    });

    it.each([
      ['dead-letters', false, /^warn .*event.*order\.lost/i],
      ['logs', true, /^error There is no matching event handler.*order\.lost/],
    ])('V4: %s a type that it does not know (noAck: %s), and names the type', async (_, noAck, sentence) => {
      const dead = await observer.queue();
      queue = await observer.queue({ deadLetterExchange: '', deadLetterRoutingKey: dead });
      await observer.channel.bindQueue(queue, exchange, '#');
      const queueOptions = { durable: true, deadLetterExchange: '', deadLetterRoutingKey: dead };
      const logger = new LogLines();
      // Nest has one log in a process: that of the application that was made last.
      const send = await produce();
      await consume({ noAck, queueOptions }, noAck ? undefined : ack, { logger });
      const [lost] = await send({ key: 'k', type: 'order.lost' }, { key: 'k' });
      await until(() => arrivals.length === 1 && logger.lines.length > 0);
      expect(logger.lines).toEqual([expect.stringMatching(sentence)]);
      if (!noAck) expect((await observer.received(dead, 1)).map(({ id }) => id)).toEqual([lost]);
    });

    it('V5: gets what a ClientRMQ sends, with an outbox and without one', async () => {
      await consume({}, undefined, { patterns: ['echo'] });
      const client = () => new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue, queueOptions: { durable: true } });
      const nest = client();
      await lastValueFrom(nest.emit('echo', { of: 'Nest' }), { defaultValue: undefined });
      await nest.close();
      const send = await produce(clientProxy({ client: client() }));
      const [id] = await send({ topic: 'echo', key: 'k', payload: { of: 'clientProxy' } });
      await until(() => arrivals.length === 2);
      expect(arrivals.map(({ data }) => data)).toEqual([{ of: 'Nest' }, { of: 'clientProxy' }]);
      const [theirs, ours] = received();
      expect(theirs).toBeUndefined();
      expect(ours).toMatchObject({ id, type: 'order.placed', key: 'k', payload: { of: 'clientProxy' } });
      expect(() => ours?.bytes).toThrow(/no bytes here/);
    });

    it('V1: gets CloudEvents, and binds by its patterns with wildcards', async () => {
      const own = { queue: await observer.queue(), exchange, exchangeType: 'topic', wildcards: true };
      await consume(own, undefined, { patterns: ['order.*'] });
      const send = await produce(broker.transport({ cloudEvents: { source: '/shop' } }));
      const [id] = await send({ topic: 'order.placed', key: 'k', payload: 7 });
      await until(() => arrivals.length === 1);
      expect(arrivals).toMatchObject([{ data: 7, message: { id, key: 'k', version: 1, payload: 7 } }]);
    });

    it('hands to a deserializer of the application what no outbox sent', async () => {
      const otherwise = { deserialize: (data: unknown) => ({ pattern: 'echo', data }) };
      await consume({ deserializer: outboxDeserializer({ otherwise }) }, undefined, { patterns: ['echo'] });
      observer.channel.sendToQueue(queue, Buffer.from('"plain"'));
      await until(() => arrivals.length === 1);
      expect(arrivals[0]?.data).toBe('plain');
    });
  });
});
