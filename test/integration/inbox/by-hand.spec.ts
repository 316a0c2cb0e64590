import 'reflect-metadata';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { TestingModule } from '@nestjs/testing';
import type { ConsumeMessage } from 'amqplib';
import { Kafka, type EachMessagePayload } from 'kafkajs';
import { InboxService } from 'nestjs-outbox/inbox';
import { kafka } from 'nestjs-outbox/kafka';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { OutboxService, type TransportOption } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { consumerModule, duplicatesOf, effectsOf, takeEffect } from '../../support/inbox.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { startProducer } from '../../support/nest-consumer.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

const CLOUD_EVENTS = { cloudEvents: { source: '/shop' } };
const open: (INestApplicationContext | TestingModule)[] = [];
const databases: TestDatabase[] = [];
let app: INestApplicationContext;
let inbox: InboxService;

/** An application without a microservice, and without an outbox. */
const startApplication = async (): Promise<void> => {
  databases.push(await createTestDatabase('postgres'), await createTestDatabase('postgres'));
  const module = consumerModule(databases[1] as TestDatabase, { controllers: [] });
  app = await NestFactory.createApplicationContext(module, { logger: false });
  open.push(app);
  inbox = app.get(InboxService);
};
const closeAll = async (): Promise<void> => {
  for (const each of open.splice(0)) await each.close();
  for (const database of databases.splice(0)) await database.drop();
};
const publish = async (transport: TransportOption, topic: string): Promise<string[]> => {
  const producer = await startProducer(databases[0] as TestDatabase, transport);
  open.push(producer);
  const ids: string[] = [];
  for (const n of [1, 2, 3])
    ids.push(
      await producer
        .get(OutboxService)
        .enqueueOutsideTransaction({ type: 'order.placed', topic, key: 'k', payload: { n } }),
    );
  return ids;
};

describeWith(['postgres', 'rabbitmq'], 'an inbox behind amqplib', () => {
  beforeEach(startApplication);
  afterEach(closeAll);

  it.each([
    ['its own headers', {}],
    ['a CloudEvent', CLOUD_EVENTS],
  ])('has the effect of each message once, by %s: failed at, and given back behind the commit', async (_, options) => {
    const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const queue = await observer.queue();
    const ids = await publish(rabbitmq({ url: requiredUrl('rabbitmq'), ...options }), queue);
    const { channel } = observer;
    await channel.prefetch(1);
    const [failed, behind] = [new Set<string>(), new Set<string>()];
    const deliver = async (message: ConsumeMessage): Promise<void> => {
      const { messageId } = message.properties as { messageId: string };
      await inbox.once(message, async (tx) => {
        await takeEffect(tx, 'consume', messageId);
        if (failed.has(messageId)) return;
        failed.add(messageId);
        throw new Error('not yet');
      });
      if (behind.has(messageId)) return;
      behind.add(messageId);
      throw new Error('not acknowledged');
    };
    await channel.consume(queue, (message) => {
      if (message === null) return; // the queue is gone: the end of the test
      void deliver(message).then(
        () => channel.ack(message),
        () => channel.nack(message),
      );
    });
    await until(async () => ((await duplicatesOf(app)) as { default?: number }).default === 3);
    expect(await effectsOf(app)).toEqual(ids.map((id) => `consume ${id}`));
    await observer.close();
  });

  it('drops what is older than what was handled of its key, when all comes again', async () => {
    const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const queue = await observer.queue();
    const ids = await publish(rabbitmq({ url: requiredUrl('rabbitmq') }), queue);
    const messages: ConsumeMessage[] = [];
    await observer.channel.consume(queue, (message) => void messages.push(message as ConsumeMessage), { noAck: true });
    await until(() => messages.length === 3);
    const [one, two, three] = messages as [ConsumeMessage, ConsumeMessage, ConsumeMessage];
    for (const message of [one, three, two, one, three]) {
      const id = String(message.properties.messageId);
      await inbox.once(message, { latest: true }, (tx) => takeEffect(tx, 'latest', id));
    }
    expect(await effectsOf(app)).toEqual([`latest ${ids[0]}`, `latest ${ids[2]}`]);
    await observer.close();
  });
});

describeWith(['postgres', 'kafka'], 'an inbox behind kafkajs', () => {
  const topics = new TestTopics();
  beforeAll(() => topics.start());
  beforeEach(startApplication);
  afterEach(closeAll);
  afterAll(() => topics.stop());

  it.each([
    ['its own headers', {}, (payload: EachMessagePayload) => payload],
    ['a CloudEvent', CLOUD_EVENTS, ({ message }: EachMessagePayload) => message],
  ] as const)(
    'has the effect of each record once, by %s: failed at, and not committed before a restart',
    async (_, options, messageOf) => {
      const topic = await topics.create();
      const ids = await publish(kafka({ client: kafkaConfig(), ...options }), topic);
      let failing = 1;
      const consume = async (autoCommit: boolean, duplicates: number): Promise<void> => {
        const retry = { initialRetryTime: 50 };
        const consumer = new Kafka(kafkaConfig()).consumer({ groupId: `${topic}-group`, maxWaitTimeInMs: 50, retry });
        await consumer.connect();
        await consumer.subscribe({ topic, fromBeginning: true });
        const eachMessage = async (payload: EachMessagePayload): Promise<void> => {
          const { n } = JSON.parse(String(payload.message.value)) as { n: number };
          await inbox.once(messageOf(payload), async (tx) => {
            await takeEffect(tx, 'eachMessage', String(n));
            failing -= 1;
            if (failing >= 0) throw new Error('not yet');
          });
        };
        await consumer.run({ autoCommit, eachMessage });
        await until(async () => (await effectsOf(app)).length === 3);
        await until(async () => ((await duplicatesOf(app)) as { default: number }).default >= duplicates);
        await consumer.disconnect();
      };
      await consume(false, 0);
      await consume(true, 3);
      expect(await effectsOf(app)).toEqual(['eachMessage 1', 'eachMessage 2', 'eachMessage 3']);
      expect(ids).toHaveLength(3);
      await topics.admin.deleteGroups([`${topic}-group`]).catch(() => undefined);
    },
  );
});
