// @tier gate
import 'reflect-metadata';
import { Controller, Injectable, UseInterceptors, type INestMicroservice } from '@nestjs/common';
import { EventPattern, Transport, type MicroserviceOptions } from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import { outboxDeserializer, Received, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { Idempotent, InboxService, type ReceiveOutcome } from 'nestjs-outbox/inbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import {
  inProcess,
  OnOutboxEvent,
  OutboxAdmin,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type PlainMessage,
} from '../../../lib/index.js';
import { AcknowledgeInterceptor } from '../../../sample/05-nest-consumer/src/billing/acknowledge.interceptor.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { duplicatesOf, effectsOf, startInboxConsumer, takeEffect } from '../../support/inbox.js';
import { startProducer } from '../../support/nest-consumer.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

const TYPES = ['order.placed', 'order.seen'];
/** What became of each delivery: handler and message, or `null` when it failed. */
let stored: (ReceiveOutcome | null)[];
let seen: { event: unknown; message: OutboxMessage }[];
/** How many times more a message with this payload fails. */
let failing: Map<unknown, number>;

@Controller()
@UseInterceptors(AcknowledgeInterceptor)
class Door {
  constructor(private readonly inbox: InboxService) {}

  @EventPattern<string[]>(TYPES)
  async store(@Received() message: ReceivedMessage): Promise<void> {
    const place = stored.push(null) - 1;
    stored[place] = await this.inbox.receive(message);
  }
}

@Injectable()
class Orders {
  constructor(private readonly inbox: InboxService) {}

  @OnOutboxEvent({ type: 'order.placed' })
  @Idempotent()
  async placed({ n }: { n: number }, { id }: OutboxMessage): Promise<void> {
    await takeEffect(this.inbox.tx, `placed ${n}`, id);
    const left = failing.get(n) ?? 0;
    failing.set(n, left - 1);
    if (left > 0) throw new Error('out of paper');
  }

  @OnOutboxEvent({ type: 'order.seen' })
  seen(event: unknown, message: OutboxMessage): void {
    seen.push({ event, message });
  }
}

describeWith(['postgres', 'rabbitmq'], 'what a broker brought, in the consumer’s own outbox', () => {
  const open: (INestMicroservice | TestingModule)[] = [];
  const databases: TestDatabase[] = [];
  let observer: RabbitMqObserver;
  let [exchange, queue, staging]: string[] = [];
  let app: INestMicroservice;

  beforeEach(async () => {
    [stored, seen, failing] = [[], [], new Map()];
    databases.push(await createTestDatabase('postgres'), await createTestDatabase('postgres'));
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    [exchange, queue, staging] = [await observer.exchange(), await observer.queue(), await observer.queue()];
    for (const each of [queue, staging]) await observer.channel.bindQueue(each, exchange, '#');
    const server: MicroserviceOptions = {
      transport: Transport.RMQ,
      options: {
        urls: [requiredUrl('rabbitmq')],
        ...{ queue, queueOptions: { durable: true }, noAck: false, prefetchCount: 1 },
        deserializer: outboxDeserializer(),
      },
    };
    const own = OutboxModule.forRoot({
      transports: { default: inProcess() },
      retry: { initial: 10, max: 20, maxAttempts: 3 },
      ...{ pollInterval: 50, database: { setup: 'create' }, logLevel: 'silent' },
    });
    const consumer = { controllers: [Door], providers: [Orders], outbox: own };
    app = await startInboxConsumer(databases[1] as TestDatabase, consumer, server);
    open.push(app);
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    await observer.close();
    for (const database of databases.splice(0)) await database.drop();
  });

  const publish = async (messages: Partial<PlainMessage>[], options: object = {}): Promise<string[]> => {
    const transport = rabbitmq({ url: requiredUrl('rabbitmq'), exchange: exchange as string, ...options });
    const producer = await startProducer(databases[0] as TestDatabase, transport);
    open.push(producer);
    const ids: string[] = [];
    for (const message of messages)
      ids.push(
        await producer.get(OutboxService).enqueueOutsideTransaction({
          ...{ type: 'order.placed', key: 'k', payload: null },
          ...message,
        }),
      );
    return ids;
  };

  it('stores each once, and its handlers have the effect once, in the order of its key through retries', async () => {
    failing.set(2, 2);
    const numbers = [1, 2, 3, 4];
    const ids = await publish(numbers.map((n) => ({ payload: { n } })));
    for (const { content, properties } of await observer.received(staging as string, ids.length))
      observer.channel.sendToQueue(queue as string, content, properties);
    await until(() => stored.length === 8 && !stored.includes(null));
    expect(stored.filter((each) => each === 'stored')).toHaveLength(4);
    expect(stored.filter((each) => each === 'duplicate')).toHaveLength(4);
    await until(async () => (await effectsOf(app)).length >= 4);
    expect(await effectsOf(app)).toEqual(numbers.map((n, index) => `placed ${n} ${ids[index]}`));
    expect(await duplicatesOf(app)).toEqual({ 'Orders.placed': 0 });
  });

  it('keeps what its handler always fails at as a dead letter, which an operator finds, explains and requeues', async () => {
    failing.set(1, 3);
    const [id, behind] = (await publish([{ payload: { n: 1 } }, { payload: { n: 2 } }])) as [string, string];
    const admin = app.get(OutboxAdmin);
    const dead = async () => (await admin.find({ state: 'dead' })).messages;
    await until(async () => (await dead()).length === 1);
    expect(await dead()).toEqual([expect.objectContaining({ id, type: 'order.placed', key: 'k' })]);
    expect((await admin.explain(id)).text).toMatch(
      /^It is dead for 'default' since .*, after 3 attempts: .*out of paper/,
    );
    await until(async () => (await admin.find({ ids: [behind] })).messages.length === 1);
    expect((await admin.explain(behind)).text).toContain(`blocked behind message ${id}`);
    expect(await effectsOf(app)).toEqual([]);
    expect(await admin.requeue({ ids: [id] })).toMatchObject({ changed: [id] });
    await until(async () => (await effectsOf(app)).length === 2);
    expect(await effectsOf(app)).toEqual([`placed 1 ${id}`, `placed 2 ${behind}`]);
    expect(await dead()).toEqual([]);
  });

  it.each([
    ['as it is', {}],
    ['as a CloudEvent', { cloudEvents: { source: '/shop' } }],
  ])('hands on JSON, text, bytes, tombstones and headers as they were sent, published %s', async (_, options) => {
    const bytes = Buffer.from([0, 200, 255]);
    const payloads: [Partial<PlainMessage>, event: unknown, body: Buffer | string | null][] = [
      [{ payload: { n: 1.5, text: 'ü' } }, { n: 1.5, text: 'ü' }, '{"n":1.5,"text":"ü"}'],
      [{ payload: '"[1]"', contentType: 'application/json' }, '[1]', '"[1]"'],
      [{ payload: '{"a": 1.0}', contentType: 'application/json' }, { a: 1 }, '{"a": 1.0}'],
      [{ payload: 'null', contentType: 'application/json' }, null, 'null'],
      [{ payload: 'text', contentType: 'text/plain; charset=utf-8' }, Buffer.from('text'), 'text'],
      [{ payload: bytes }, bytes, bytes],
      [{ payload: null }, null, null],
    ];
    const headers = { traceparent: '00-1-2-03', 'x-of': 'ü', raw: Buffer.from([255]), several: ['one', 'two'] };
    const key = 'ключ "1"';
    await publish(
      payloads.map(([message]) => ({ ...message, type: 'order.seen', version: 3, key, headers })),
      options,
    );
    await until(() => seen.length === payloads.length);
    expect(seen.map(({ event }) => event)).toEqual(payloads.map(([, event]) => event));
    expect(seen.map(({ message }) => message.payload && Buffer.from(message.payload).toString('latin1'))).toEqual(
      payloads.map(([, , body]) => body && Buffer.from(body).toString('latin1')),
    );
    for (const { message } of seen) {
      expect(message).toMatchObject({ type: 'order.seen', version: 3, key });
      expect({ ...message.headers }).toEqual(headers);
    }
    expect(seen.map(({ message }) => message.contentType)).toEqual([
      ...['application/json', 'application/json', 'application/json', 'application/json'],
      ...['text/plain; charset=utf-8', 'application/octet-stream', expect.any(String)],
    ]);
  });
});
