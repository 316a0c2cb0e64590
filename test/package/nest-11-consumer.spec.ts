// @tier all
import type { TestingModule } from '@nestjs/testing';
import { kafka } from 'nestjs-outbox/kafka';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { OutboxService, type TransportOption } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { kafkaConfig, TestTopics } from '../support/kafka.js';
import { startProducer } from '../support/nest-consumer.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl, type Service } from '../support/services.js';
import { Consumer } from './consumer.js';

const COUNT = 20;

describeWith(['postgres', 'rabbitmq', 'kafka'], 'a Nest 11 microservice that installed the package', () => {
  jest.setTimeout(600_000);
  const topics = new TestTopics();
  let consumer: Consumer;
  let database: TestDatabase;
  let observer: RabbitMqObserver;
  let producer: TestingModule | undefined;

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    await topics.start();
    consumer = await Consumer.create({
      type: 'commonjs',
      sources: 'consumer',
      dependencies: {
        '@nestjs/common': '^11.0.0',
        '@nestjs/core': '^11.0.0',
        '@nestjs/microservices': '^11.0.0',
        '@types/node': '^22.0.0',
        'amqp-connection-manager': '^5.0.0',
        amqplib: '^0.10.9',
        kafkajs: '^2.2.4',
        'reflect-metadata': '^0.2.0',
        rxjs: '^7.8.0',
        typeorm: '^0.3.20',
      },
      compilerOptions: { module: 'CommonJS', moduleResolution: 'node10', ignoreDeprecations: '6.0' },
    });
  }, 900_000);
  afterEach(async () => {
    await producer?.close();
    producer = undefined;
  });
  afterAll(async () => {
    await consumer?.remove();
    await topics.stop();
    await observer?.close();
    await database?.drop();
  });

  const places: Record<'rabbitmq' | 'kafka', () => Promise<{ place: string; transport: TransportOption }>> = {
    rabbitmq: async () => ({ place: await observer.queue(), transport: rabbitmq({ url: requiredUrl('rabbitmq') }) }),
    kafka: async () => ({ place: await topics.create(), transport: kafka({ client: kafkaConfig() }) }),
  };

  it('compiles', async () => {
    expect(await consumer.compile()).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  it.each(['rabbitmq', 'kafka'] as (Service & keyof typeof places)[])(
    'V1: gets what %s() publishes, in order, with id, type and key',
    async (kind) => {
      const { place, transport } = await places[kind]();
      producer = await startProducer(database, transport);
      const outbox = producer.get(OutboxService);
      const sent: string[] = [];
      for (let n = 0; n < COUNT; n++) {
        const payload = n === 3 ? null : { n };
        sent.push(await outbox.enqueueOutsideTransaction({ type: 'order.placed', topic: place, key: 'k', payload }));
      }
      const address = kind === 'kafka' ? kafkaConfig().brokers : [requiredUrl(kind)];
      const outcome = await consumer.node(['out/main.js', kind, String(address), place, String(COUNT)]);
      expect(outcome).toMatchObject({ code: 0, stderr: '' });
      const lines = outcome.stdout.trim().split('\n');
      expect(lines.map((line) => JSON.parse(line) as object)).toEqual(
        sent.map((id, n) => {
          const payload = n === 3 ? null : { n };
          const bytes = payload && JSON.stringify(payload).length;
          return { id, type: 'order.placed', version: 1, key: 'k', payload, data: payload, bytes };
        }),
      );
    },
  );
});
