// @tier all
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestingModule } from '@nestjs/testing';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { OutboxService } from '../../../lib/index.js';
import { Consumer } from '../../package/consumer.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { startProducer } from '../../support/nest-consumer.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';

/** Ends after as many deliveries as it is told, and prints each effect. */
const MAIN = `import 'reflect-metadata';
import { RabbitMQModule, RabbitPayload, RabbitRequest, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, Module, UseInterceptors, type CallHandler, type NestInterceptor } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { ConsumeMessage } from 'amqplib';
import { Idempotent, InboxModule, InboxService } from 'nestjs-outbox/inbox';
import { pgLayer } from 'nestjs-outbox/pg';
import { Pool } from 'pg';
import { finalize, type Observable } from 'rxjs';

const [uri, connectionString, byPlace, byDecorator, count] = process.argv.slice(2);
const pool = new Pool({ connectionString });
const failed = new Set<string>();
let deliveries = 0;
let done: () => void;
const all = new Promise<void>((resolve) => (done = resolve));

@Injectable()
class Counted implements NestInterceptor {
  intercept(_: unknown, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(finalize(() => (deliveries += 1) === Number(count) && done()));
  }
}

@Injectable()
@UseInterceptors(Counted)
class Stock {
  constructor(private readonly inbox: InboxService) {}

  @RabbitSubscribe({ queue: byPlace })
  @Idempotent()
  async take({ product }: { product: string }, _message: ConsumeMessage): Promise<void> {
    await this.effect('take', product);
  }

  @Idempotent()
  @RabbitSubscribe({ queue: byDecorator })
  async count(@RabbitRequest() _message: ConsumeMessage, @RabbitPayload('product') product: string): Promise<void> {
    await this.effect('count', product);
  }

  /** Fails at each second product, once. */
  private async effect(handler: string, product: string): Promise<void> {
    const effect = handler + ' ' + product;
    await this.inbox.tx.query('insert into effects values ($1)', [effect]);
    if (product !== 'lamp' || failed.has(effect)) return;
    failed.add(effect);
    throw new Error('not yet');
  }
}

@Module({
  imports: [
    RabbitMQModule.forRoot({ uri, prefetchCount: 1 }),
    InboxModule.forRoot({ dataLayer: pgLayer(pool), database: { setup: 'create' } }),
  ],
  providers: [Stock],
})
class StockModule {}

async function main(): Promise<void> {
  await pool.query('create table effects (effect text not null)');
  const app = await NestFactory.createApplicationContext(StockModule, { logger: false });
  await all;
  const inbox = await app.get(InboxService).stats();
  await app.close();
  const { rows } = await pool.query('select effect from effects order by effect');
  console.log(JSON.stringify({ deliveries, effects: rows.map(({ effect }) => effect), inbox }));
  await pool.end();
}

void main();
`;

/** It asks for Nest 11. */
const NESTS = ['^11.1.21', '^12.0.0'];

describeWith(['postgres', 'rabbitmq'], 'an application with @golevelup/nestjs-rabbitmq and an inbox', () => {
  jest.setTimeout(900_000);
  const databases: TestDatabase[] = [];
  let observer: RabbitMqObserver;
  let producer: TestingModule;
  let consumer: Consumer;

  beforeAll(async () => {
    process.env['npm_config_legacy_peer_deps'] = 'true';
    databases.push(await createTestDatabase('postgres'));
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    producer = await startProducer(databases[0] as TestDatabase, rabbitmq({ url: requiredUrl('rabbitmq') }));
  });
  afterEach(() => consumer?.remove());
  afterAll(async () => {
    delete process.env['npm_config_legacy_peer_deps'];
    await producer?.close();
    await observer?.close();
    for (const database of databases) await database.drop();
  });

  const install = async (nest: string): Promise<void> => {
    consumer = await Consumer.create({
      type: 'commonjs',
      sources: 'consumer',
      dependencies: {
        '@golevelup/nestjs-rabbitmq': '^9.0.2',
        '@nestjs/common': nest,
        '@nestjs/core': nest,
        '@types/amqplib': '^0.10.0',
        '@types/node': '^22.0.0',
        '@types/pg': '^8.0.0',
        pg: '^8.0.0',
        'reflect-metadata': '^0.2.2',
        rxjs: '^7.8.1',
      },
      compilerOptions: { module: 'NodeNext', moduleResolution: 'NodeNext' },
    });
    await writeFile(join(consumer.folder, 'src', 'main.ts'), MAIN);
    expect(await consumer.compile()).toEqual({ code: 0, stdout: '', stderr: '' });
  };

  it.each(NESTS)('has the effect of each message once with Nest %s: published twice, and failed at', async (nest) => {
    await install(nest);
    const database = await createTestDatabase('postgres');
    databases.push(database);
    const [staging, ...queues] = [await observer.queue(), await observer.queue(), await observer.queue()] as const;
    for (const product of ['chair', 'lamp'])
      await producer
        .get(OutboxService)
        .enqueueOutsideTransaction({ type: 'order.placed', topic: staging, key: 'k', payload: { product } });
    for (const { content, properties } of await observer.received(staging, 2))
      for (const queue of [...queues, ...queues]) observer.channel.sendToQueue(queue, content, properties);

    const outcome = await consumer.node(['out/main.js', requiredUrl('rabbitmq'), database.url, ...queues, '10']);
    expect(outcome).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(outcome.stdout)).toEqual({
      deliveries: 10, // each handler fails once
      effects: ['count chair', 'count lamp', 'take chair', 'take lamp'],
      inbox: [
        { consumer: 'Stock.count', messages: 2, duplicates: 2 },
        { consumer: 'Stock.take', messages: 2, duplicates: 2 },
      ],
    });
    for (const queue of queues) expect(await observer.depth(queue)).toBe(0);
  });
});
