// @tier gate
import type { INestMicroservice } from '@nestjs/common';
import * as nestCore from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { DataSource } from 'typeorm';
import { OutboxService } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { LogLines, startProducer } from '../support/nest-consumer.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { until } from '../support/until.js';
import { blocksIn } from './documents.js';
import { DocumentedModules } from './modules.js';

describeWith(['postgres', 'rabbitmq'], 'docs/nest-consumer.md, copied', () => {
  const apps: (INestMicroservice | TestingModule)[] = [];
  let database: TestDatabase;
  let dataSource: DataSource;
  let observer: RabbitMqObserver;

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    dataSource = await new DataSource(database.options).initialize();
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    process.env['RABBITMQ_URL'] = requiredUrl('rabbitmq');
    process.env['DATABASE_URL'] = database.url;
  });
  afterAll(async () => {
    delete process.env['RABBITMQ_URL'];
    delete process.env['DATABASE_URL'];
    for (const app of apps.splice(0)) await app.close();
    await observer.close();
    await dataSource.destroy();
    await database.drop();
  });

  it('V6: bills each order once and in order, also when it failed at first and when a message comes twice', async () => {
    const [exchange, queue, log] = [observer.unusedName(), await observer.queue(), new LogLines()];
    const blocks = blocksIn('ts').map((block) => {
      const text = block.text.replaceAll(`'shop'`, `'${exchange}'`).replaceAll(`'billing'`, `'${queue}'`);
      return { ...block, text };
    });
    const topology = { assertExchange: [{ name: exchange, type: 'topic', options: { durable: true } }] };
    const producer = await startProducer(database, rabbitmq({ url: requiredUrl('rabbitmq'), exchange, topology }));
    apps.push(producer);
    const createMicroservice = async (module: object, options: MicroserviceOptions): Promise<INestMicroservice> => {
      const app = await nestCore.NestFactory.createMicroservice(module as never, { ...options, logger: log });
      apps.push(app);
      return app;
    };
    const external = (name: string): unknown =>
      name === '@nestjs/core' ? { NestFactory: { createMicroservice } } : require(name);
    new DocumentedModules(external, undefined, blocks).load('src/billing/main.ts');
    await until(async () => (await observer.channel.checkQueue(queue)).consumerCount === 1);

    const outbox = producer.get(OutboxService);
    const ids: string[] = [];
    for (const total of [1, 2, 3]) {
      const payload = { orderId: 'o', total };
      ids.push(await outbox.enqueueOutsideTransaction({ type: 'order.placed', topic: 'orders', key: 'o', payload }));
    }
    await until(() => log.lines.length > 0);
    await dataSource.query('create table invoices (number serial, order_id text, total int)');
    const invoices = async (): Promise<number[]> =>
      ((await dataSource.query('select total from invoices order by number')) as { total: number }[]).map(
        ({ total }) => total,
      );
    await until(async () => (await invoices()).length === 3);
    const headers = { id: ids[0], type: 'order.placed', version: '1', time: new Date().toISOString(), key: 'o' };
    observer.channel.sendToQueue(queue, Buffer.from('{"orderId":"o","total":1}'), {
      ...{ headers, messageId: ids[0] as string, type: 'order.placed', contentType: 'application/json' },
    });
    const last = { type: 'order.placed', topic: 'orders', key: 'o', payload: { orderId: 'o', total: 4 } };
    await outbox.enqueueOutsideTransaction(last);
    await until(async () => (await invoices()).length >= 4);
    expect(await invoices()).toEqual([1, 2, 3, 4]);
    for (const app of apps.splice(0)) await app.close();
    expect(await observer.depth(queue)).toBe(0);
  });
});
