import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { Controller, type INestMicroservice, type Type } from '@nestjs/common';
import { Ctx, EventPattern, KafkaContext, Payload, Transport, type MicroserviceOptions } from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import { Kafka } from 'kafkajs';
import { outboxDeserializer, Received, type ReceivedMessage } from 'nestjs-outbox/consumer';
import { Idempotent, InboxService } from 'nestjs-outbox/inbox';
import { kafka } from 'nestjs-outbox/kafka';
import { OutboxService } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { duplicatesOf, effectsOf, startInboxConsumer, takeEffect } from '../../support/inbox.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { startProducer } from '../../support/nest-consumer.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

/** How many effects more fail. */
let failing: number;

/** In Nest the pattern is the topic, which is known at run time only. */
function controllersOf(topic: string): Type[] {
  @Controller()
  class Orders {
    constructor(private readonly inbox: InboxService) {}

    @EventPattern<string>(topic)
    @Idempotent()
    async received(@Payload() _: unknown, @Received() { id }: ReceivedMessage): Promise<void> {
      await takeEffect(this.inbox.tx, 'received', id);
      failing -= 1;
      if (failing >= 0) throw new Error('not yet');
    }
  }
  @Controller()
  class Report {
    constructor(private readonly inbox: InboxService) {}

    @EventPattern<string>(topic)
    @Idempotent()
    async context(@Ctx() context: KafkaContext): Promise<void> {
      await takeEffect(this.inbox.tx, 'context', String(context.getMessage().headers?.['id']));
    }
  }
  return [Orders, Report];
}

describeWith(['postgres', 'kafka'], 'a Nest microservice on Kafka with an inbox', () => {
  const open: (INestMicroservice | TestingModule)[] = [];
  const databases: TestDatabase[] = [];
  const topics = new TestTopics();
  const groups: string[] = [];
  beforeAll(() => topics.start());
  beforeEach(async () => {
    databases.push(await createTestDatabase('postgres'), await createTestDatabase('postgres'));
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    for (const database of databases.splice(0)) await database.drop();
  });
  afterAll(async () => {
    await topics.admin.deleteGroups(groups).catch(() => undefined);
    await topics.stop();
  });

  it.each([
    ['with', { keepBinary: true }],
    ['without', {}],
  ])(
    'has the effect of each record once and for each handler, %s its bytes: failed at, published twice, and not committed before a restart',
    async (_, parser) => {
      const topic = await topics.create();
      const groupId = `inbox-${randomBytes(5).toString('hex')}`;
      groups.push(`${groupId}-server`);
      const start = async (autoCommit: boolean): Promise<INestMicroservice> => {
        const server: MicroserviceOptions = {
          transport: Transport.KAFKA,
          options: {
            client: { ...kafkaConfig() },
            consumer: { groupId, maxWaitTimeInMs: 50, retry: { initialRetryTime: 50 } },
            subscribe: { fromBeginning: true },
            run: { autoCommit },
            parser,
            deserializer: outboxDeserializer(),
          },
        };
        const consumer = { controllers: controllersOf(topic) };
        const app = await startInboxConsumer(databases[1] as TestDatabase, consumer, server);
        open.push(app);
        return app;
      };
      const producer = await startProducer(databases[0] as TestDatabase, kafka({ client: kafkaConfig() }));
      open.push(producer);
      const payloads = [{ n: 1 }, 'text', null];
      const ids: string[] = [];
      for (const payload of payloads)
        ids.push(
          await producer
            .get(OutboxService)
            .enqueueOutsideTransaction({ type: 'order.placed', topic, key: 'k', payload }),
        );
      const records = await topics.read(topic, ids.length);
      const client = new Kafka(kafkaConfig()).producer();
      await client.connect();
      await client.send({
        topic,
        messages: records.map(({ key, value, headers }) => ({ key, value, headers: headers! })),
      });
      await client.disconnect();

      const repeated = (app: INestMicroservice, times: number): Promise<void> =>
        until(async () => Object.values(await duplicatesOf(app)).every((duplicates) => duplicates >= times));
      failing = 1;
      const first = await start(false);
      await until(async () => (await effectsOf(first)).length === 6);
      await repeated(first, 3);
      await first.close();
      open.splice(open.indexOf(first), 1);

      const second = await start(true);
      await repeated(second, 9);
      const effects = await effectsOf(second);
      for (const handler of ['received', 'context'])
        expect(effects.filter((each) => each.startsWith(handler))).toEqual(ids.map((id) => `${handler} ${id}`));
    },
  );
});
