import { Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { connectAsync } from 'mqtt';
import { inboxMigrations, InboxModule } from 'nestjs-outbox/inbox';
import { mqtt } from 'nestjs-outbox/mqtt';
import { nats } from 'nestjs-outbox/nats';
import { redis } from 'nestjs-outbox/redis';
import { sqs } from 'nestjs-outbox/sqs';
import { DataSource } from 'typeorm';
import { OutboxService, type TransportOption } from '../../../lib/index.js';
import { blocksIn, type Block } from '../../readme/documents.js';
import { DocumentedModules } from '../../readme/modules.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { MqttObserver } from '../../support/mqtt.js';
import { NatsObserver } from '../../support/nats.js';
import { startProducer } from '../../support/nest-consumer.js';
import { RedisObserver } from '../../support/redis.js';
import { describeWith, requiredUrl, type Service } from '../../support/services.js';
import { configFor, SqsObserver } from '../../support/sqs.js';
import { until } from '../../support/until.js';

type Consumer = new (...args: never[]) => { takeSome?(): Promise<void> };
interface Listing {
  readonly file: string;
  readonly transport: TransportOption;
  readonly topic: string;
  /** In place of what stands in the listing. */
  readonly names?: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

const OPEN: Readonly<Record<string, () => Promise<Listing>>> = {
  async nats() {
    const [url, file] = [requiredUrl('nats'), 'src/stock/stock.consumer.ts'];
    const observer = await NatsObserver.connect(url);
    const topic = await observer.stream();
    await observer.manager.consumers.add(topic, { durable_name: 'stock', ack_policy: 'explicit', max_ack_pending: 1 });
    const [transport, names] = [nats({ client: { servers: url } }), { ORDERS: topic }];
    return { file, transport, topic, names, env: { NATS_SERVERS: url }, close: () => observer.close() };
  },
  async redis() {
    const [url, file] = [requiredUrl('redis'), 'src/billing/orders.reader.ts'];
    const observer = new RedisObserver(url);
    const topic = observer.stream();
    await observer.client.xgroup('CREATE', topic, 'billing', '0', 'MKSTREAM');
    const names = { 'shop.orders': topic };
    return { file, transport: redis({ url }), topic, names, env: { REDIS_URL: url }, close: () => observer.close() };
  },
  async sqs() {
    const url = requiredUrl('sqs');
    const observer = new SqsObserver(url);
    const topic = await observer.queue();
    const login = { AWS_ACCESS_KEY_ID: 'outbox', AWS_SECRET_ACCESS_KEY: 'outbox', AWS_REGION: 'elasticmq' };
    const env = { ...login, AWS_ENDPOINT_URL: url, ORDERS_QUEUE_URL: observer.urlOf(topic) };
    const own = { file: 'src/order-queue.ts', transport: sqs({ client: configFor(url) }) };
    return { ...own, topic, env, close: () => observer.close() };
  },
  async mqtt() {
    const [url, file] = [requiredUrl('mqtt'), 'src/billing/billing.consumer.ts'];
    const observer = await MqttObserver.connect(url);
    const topic = observer.unusedTopic();
    // The session of a consumer that was there before.
    const properties = { sessionExpiryInterval: 3_600 };
    const earlier = await connectAsync(url, { protocolVersion: 5, clientId: topic, clean: false, properties });
    await earlier.subscribeAsync(topic, { qos: 1 });
    await earlier.endAsync();
    const names = { 'shop/orders': topic, "'billing'": `'${topic}'` };
    return { file, transport: mqtt({ url }), topic, names, env: { MQTT_URL: url }, close: () => observer.close() };
  },
};

const EFFECT = `select sum(n) as n from (select 100 - count from stock union all select total from invoices
  union all select (body::json ->> 'total')::int from received_orders) as all_of_them (n)`;

for (const service of Object.keys(OPEN) as Service[])
  describeWith(['postgres', service], `the consumer on the page of ${service}`, () => {
    const apps: TestingModule[] = [];
    let database: TestDatabase;
    let listing: Listing;
    afterAll(async () => {
      for (const app of apps) await app.close();
      await listing?.close();
      for (const name of Object.keys(listing?.env ?? {})) delete process.env[name];
      await database?.drop();
    });

    it('has the effect of each message', async () => {
      database = await createTestDatabase('postgres');
      listing = await (OPEN[service] as () => Promise<Listing>)();
      const { file, names = {}, env, topic, transport } = listing;
      Object.assign(process.env, env);
      const named = (text: string, pair: [string, string]): string => text.replaceAll(...pair);
      const textOf = (block: Block): string => Object.entries(names).reduce(named, block.text);
      const blocks = blocksIn('ts', '').map((block) => ({ ...block, text: textOf(block) }));
      const loaded = new DocumentedModules(require, undefined, blocks).load<Record<string, Consumer>>(file);
      const [Consumer] = Object.values(loaded) as [Consumer];
      const migrated = { ...database.options, migrations: inboxMigrations(), migrationsRun: true };
      @Module({ imports: [TypeOrmModule.forRoot(migrated), InboxModule.forRoot()], providers: [Consumer] })
      class ConsumerModule {}
      const consumer = await Test.createTestingModule({ imports: [ConsumerModule] }).compile();
      apps.push(consumer);
      const dataSource = consumer.get(DataSource);
      await dataSource.query(`create table stock (product text, count int); insert into stock values ('p', 100);
        create table invoices (order_id text, total int); create table received_orders (body text)`);
      await consumer.init();
      const producer = await startProducer(database, transport);
      apps.push(producer);
      const outbox = producer.get(OutboxService);
      for (const total of [1, 20, 300]) {
        const payload = { orderId: 'o', total, product: 'p', count: total };
        await outbox.enqueueOutsideTransaction({ type: 'order.placed', topic, key: 'o', payload });
      }
      await until(async () => {
        await consumer.get(Consumer).takeSome?.();
        return Number((await dataSource.query(EFFECT))[0].n) === 321;
      });
    });
  });
