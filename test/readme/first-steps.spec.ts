import { randomUUID } from 'node:crypto';
import { Logger, type INestApplicationContext } from '@nestjs/common';
import * as nestCore from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { DataSourceOptions } from 'typeorm';
import { OutboxModule, OutboxService, type TransportOption } from '../../lib/index.js';
import { outboxTesting, overrideOutbox } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { until } from '../support/until.js';
import { blocksIn } from './documents.js';
import { DocumentedModules } from './modules.js';
import { patchedBlocks } from './patches.js';

type Class = new (...args: never[]) => object;

describeWith('postgres', 'what a reader copies first', () => {
  const apps: INestApplicationContext[] = [];
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    process.env['DATABASE_URL'] = database.url;
    process.env['PORT'] = '0';
    Logger.overrideLogger(false);
  });
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close();
  });
  afterAll(async () => {
    delete process.env['DATABASE_URL'];
    delete process.env['PORT'];
    Logger.overrideLogger(['log', 'warn', 'error']);
    await database.drop();
  });

  /** Runs an entry as it stands in the document, and keeps the application that it makes. */
  const startEntry = async (file: string): Promise<INestApplicationContext> => {
    const keep = async <T extends INestApplicationContext>(starting: Promise<T>): Promise<T> => {
      const app = await starting;
      apps.push(app);
      return app;
    };
    const NestFactory = {
      create: (module: Class) => keep(nestCore.NestFactory.create(module, { abortOnError: false })),
      createApplicationContext: (module: Class) =>
        keep(nestCore.NestFactory.createApplicationContext(module, { abortOnError: false })),
    };
    const external = (name: string): unknown => (name === '@nestjs/core' ? { NestFactory } : require(name));
    new DocumentedModules(external).load(file);
    await until(() => apps.length > 0);
    return apps[0] as INestApplicationContext;
  };

  it('src/worker.ts: copied, it relays', async () => {
    const outbox = (await startEntry('src/worker.ts')).get(OutboxService);
    await until(async () => (await outbox.stats()).transports['default']?.instances === 1);
  });

  it('src/mailer.ts: its lines added, the handler is called', async () => {
    const modules = new DocumentedModules(require, undefined, patchedBlocks());
    const { AppModule } = modules.load<{ AppModule: Class }>('src/app.module.ts');
    const { OrdersService } = modules.load<{ OrdersService: Class }>('src/orders/orders.service.ts');
    const builder = Test.createTestingModule({ imports: [AppModule] });
    const app = await overrideOutbox(builder, { keep: ['local'] }).compile();
    apps.push(await app.init());
    const printed = jest.spyOn(console, 'log').mockImplementation(() => {});
    try {
      const order = { id: randomUUID(), total: 10 };
      const service = app.get<{ place(order: object): Promise<string> }>(OrdersService);
      const id = await service.place(order);
      await outboxTesting(app).drain();
      expect(printed.mock.calls).toEqual([[`mail about ${order.id}, message ${id}`]]);
      expect(outboxTesting(app).published()).toEqual([expect.objectContaining({ id, transport: 'default' })]);
    } finally {
      printed.mockRestore();
    }
  });
});

describeWith(['postgres', 'rabbitmq'], 'the first steps with RabbitMQ', () => {
  let database: TestDatabase;
  let observer: RabbitMqObserver;
  let app: TestingModule | undefined;

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    process.env['RABBITMQ_URL'] = requiredUrl('rabbitmq');
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });
  afterAll(async () => {
    delete process.env['RABBITMQ_URL'];
    await observer.close();
    await database.drop();
  });
  const start = async (transport: TransportOption): Promise<TestingModule> => {
    const outbox = OutboxModule.forRoot({
      transports: { default: transport },
      database: { setup: 'create' },
      logLevel: 'silent',
    });
    const imports = [TypeOrmModule.forRoot(database.options as DataSourceOptions), outbox];
    app = await Test.createTestingModule({ imports })
      .setLogger(false as never)
      .compile();
    return app.init();
  };

  it('asserts what the document lists, and publishes there', async () => {
    const exchange = observer.unusedName();
    const queue = `${exchange}.orders`;
    const ours = blocksIn('ts').map((block) => ({ ...block, text: block.text.replaceAll(`'shop`, `'${exchange}`) }));
    const { shopBroker } = new DocumentedModules(require, undefined, ours).load<{ shopBroker: TransportOption }>(
      'src/shop-broker.ts',
    );
    const running = await start(shopBroker);
    try {
      const outbox = running.get(OutboxService);
      const published = new Promise((resolve) => void outbox.events.on('published', resolve));
      await outbox.enqueueOutsideTransaction({ type: 'order.placed', topic: 'orders', payload: 1 });
      await published;
      const [arrived] = await observer.received(queue, 1);
      expect(arrived?.content.toString()).toBe('1');
    } finally {
      await observer.channel.deleteQueue(queue);
    }
  });
});
