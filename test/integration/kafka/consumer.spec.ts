import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import type { INestMicroservice, Type } from '@nestjs/common';
import { Ctx, EventPattern, KafkaContext, Payload, Transport } from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import { Kafka } from 'kafkajs';
import { outboxDeserializer, Received, receivedMessage, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { kafka } from 'nestjs-outbox/kafka';
import { OutboxService } from '../../../lib/index.js';
import type { PlainMessage } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { startConsumer, startProducer } from '../../support/nest-consumer.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

interface Arrival {
  readonly data: unknown;
  readonly message: ReceivedMessage | undefined;
  readonly offset: string;
}
const JSON_TYPE = 'application/json';

describeWith(['postgres', 'kafka'], 'a Nest microservice behind kafka()', () => {
  const topics = new TestTopics();
  const groups: string[] = [];
  const open: (INestMicroservice | TestingModule)[] = [];
  let database: TestDatabase;
  let topic: string;
  let arrivals: Arrival[];

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    await topics.start();
  });
  beforeEach(async () => {
    topic = await topics.create();
    arrivals = [];
  });
  afterEach(async () => {
    for (const app of open.splice(0)) await app.close();
  });
  afterAll(async () => {
    await topics.admin.deleteGroups(groups).catch(() => undefined);
    await topics.stop();
    await database.drop();
  });

  /** @param then what the handler ends with, for the n-th arrival */
  const consume = async (options: object = {}, then: (arrived: number) => unknown = () => undefined): Promise<void> => {
    class Orders {
      on(data: unknown, message: ReceivedMessage | undefined, context: KafkaContext): unknown {
        arrivals.push({ data, message, offset: context.getMessage().offset });
        expect(receivedMessage(context)?.id).toBe(message?.id);
        return then(arrivals.length);
      }
    }
    // The topic is known at run time only.
    const decorate = (...decorators: ((target: object, name: string, index: never) => void)[]): void =>
      decorators.forEach((decorator, index) => decorator(Orders.prototype, 'on', index as never));
    decorate(Payload() as never, Received() as never, Ctx() as never);
    const on = Object.getOwnPropertyDescriptor(Orders.prototype, 'on') as PropertyDescriptor;
    EventPattern<string>(topic)(Orders.prototype, 'on', on);
    const groupId = `consumer-${randomBytes(5).toString('hex')}`;
    groups.push(`${groupId}-server`);
    const defaults = {
      client: { ...kafkaConfig() },
      consumer: { groupId, maxWaitTimeInMs: 50, retry: { initialRetryTime: 50 } },
      subscribe: { fromBeginning: true },
      deserializer: outboxDeserializer(),
    };
    const server = { transport: Transport.KAFKA as const, options: { ...defaults, ...options } };
    open.push(await startConsumer(Orders as Type, server as never));
  };
  const produce = async (options: object = {}) => {
    const app = await startProducer(database, kafka({ client: kafkaConfig(), ...options }));
    open.push(app);
    const outbox = app.get(OutboxService);
    return async (...messages: Omit<PlainMessage, 'type' | 'topic'>[]): Promise<string[]> => {
      const ids: string[] = [];
      for (const message of messages)
        ids.push(await outbox.enqueueOutsideTransaction({ type: 'order.placed', topic, ...message }));
      return ids;
    };
  };

  it('V1: gets every event by its topic, in order, with id, type, key and headers', async () => {
    await consume();
    const send = await produce();
    const ids = await send(
      ...Array.from({ length: 50 }, (_, n) => ({
        ...{ key: `key-${n % 3}`, payload: { n, value: 1, pattern: 'x' }, headers: { traceparent: `trace-${n}` } },
      })),
    );
    await until(() => arrivals.length >= 50);
    for (const key of ['key-0', 'key-1', 'key-2']) {
      const ofKey = arrivals.filter(({ message }) => message?.key === key);
      expect(ofKey.map(({ message }) => message?.id)).toEqual(ids.filter((_, n) => `key-${n % 3}` === key));
    }
    const { data, message } = arrivals.find((arrival) => arrival.message?.id === ids[4]) as Arrival;
    expect(data).toEqual({ n: 4, value: 1, pattern: 'x' });
    expect(message).toMatchObject({
      ...{ id: ids[4], type: 'order.placed', version: 1, key: 'key-1', contentType: JSON_TYPE, payload: data },
      headers: expect.objectContaining({ traceparent: 'trace-4' }),
    });
  });

  it('V3: gets tombstones, scalars, text, bytes and large payloads as they were, with keepBinary', async () => {
    await consume({ parser: { keepBinary: true } });
    const bytes = randomBytes(200_000);
    const large = { text: 'ü'.repeat(400_000) };
    const payloads: { payload: unknown; contentType?: string }[] = [
      { payload: null },
      { payload: 'null', contentType: JSON_TYPE },
      { payload: '"[1]"', contentType: JSON_TYPE },
      { payload: '{"a": 1.0}', contentType: 'text/plain' },
      { payload: bytes, contentType: 'application/octet-stream' },
      { payload: large },
    ];
    await (
      await produce()
    )(...payloads.map((each) => ({ key: 'one', ...each })));
    await until(() => arrivals.length === payloads.length);
    expect(arrivals.map(({ data }) => data)).toEqual([null, null, '[1]', Buffer.from('{"a": 1.0}'), bytes, large]);
    const received = arrivals.map(({ message }) => message as ReceivedMessage);
    expect(received.map(({ payload }) => payload)).toEqual([null, null, '[1]', '{"a": 1.0}', bytes, large]);
    expect(received.map((message) => message.bytes?.length)).toEqual([
      ...[undefined, 4, 5, 10, bytes.length, Buffer.byteLength(JSON.stringify(large))],
    ]);
  });

  it('V3: says so where Nest did not keep the bytes', async () => {
    await consume();
    const payloads = [
      { payload: 'null', contentType: JSON_TYPE },
      { payload: '"[1]"', contentType: JSON_TYPE },
      { payload: null },
      { payload: 'plain', contentType: 'text/plain' },
      { payload: Buffer.from([200, 201]), contentType: 'application/octet-stream' },
    ];
    await (
      await produce({ cloudEvents: { source: '/shop' } })
    )(...payloads.map((each) => ({ key: 'one', ...each })));
    await until(() => arrivals.length === payloads.length);
    expect(arrivals.slice(0, 4).map(({ data }) => data)).toEqual([null, '[1]', null, 'plain']);
    const received = arrivals.map(({ message }) => message as ReceivedMessage);
    expect(received.slice(0, 4).map(({ payload }) => payload)).toEqual([null, '[1]', null, 'plain']);
    expect(received[2]?.bytes).toBeNull();
    expect(() => received[4]?.payload).toThrow(/The payload of message .*keepBinary: true/);
  });

  it('V2: gets again, in its place, what its handler failed at', async () => {
    const send = await produce();
    await consume({}, (arrived) => (arrived === 2 ? Promise.reject(new Error('not yet')) : undefined));
    const [first, second, third] = await send(...[1, 2, 3].map((n) => ({ key: 'one', payload: n })));
    await until(() => arrivals.length === 4);
    expect(arrivals.map(({ message }) => message?.id)).toEqual([first, second, second, third]);
  });

  it('V5: gets what others send as before', async () => {
    await consume();
    const producer = new Kafka(kafkaConfig()).producer();
    await producer.connect();
    await producer.send({ topic, messages: [{ value: '{"of":"kafkajs"}', headers: { id: 'x' } }] });
    await producer.disconnect();
    await until(() => arrivals.length === 1);
    expect(arrivals[0]).toMatchObject({ data: { of: 'kafkajs' }, message: undefined });
  });
});
