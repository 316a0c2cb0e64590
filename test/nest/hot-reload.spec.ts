import type { Provider } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { Registry } from 'prom-client';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { OutboxPrometheus } from '../../lib/prometheus/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeOnEach, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import {
  Applications,
  build,
  CollectingTransport,
  failure,
  GatedTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

/** What a development server does to a process that it does not end. */
describeOnEach(['rabbitmq'], 'an application that is started again in its process', (kind) => {
  let database: TestDatabase;
  const applications = new Applications();
  beforeEach(async () => {
    database = await createTestDatabase(kind);
  });
  afterEach(async () => {
    await applications.close();
    await database.drop();
  });
  const metricsIn = (registry: Registry): Provider => ({
    provide: OutboxPrometheus,
    inject: [OutboxService],
    useFactory: (outbox: OutboxService) => new OutboxPrometheus(outbox, { registry }),
  });
  const enqueue = (app: TestingModule, key: string, n = 1): Promise<string> =>
    app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced(key, n));

  it('G5: on the DataSource of one that was thrown away without close() it is refused, until that one is closed', async () => {
    const dataSource = await new DataSource(database.options).initialize();
    try {
      const module = (transport: CollectingTransport) =>
        OutboxModule.forRoot({ ...quiet({ transports: { default: transport } }), dataSource });
      const [first, second] = [new CollectingTransport(), new CollectingTransport()];
      const thrownAway = await applications.start(build([module(first)]));
      const error = await failure(build([module(second)]));
      expect(error).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
      expect(error.message.match(/hot-reload\.spec\.ts:\d+/g)).toHaveLength(2);
      const old = await enqueue(thrownAway, 'k');
      await until(() => first.ids.includes(old)); // the one that was thrown away is none the worse
      await applications.close();
      const app = await applications.start(build([module(second)]));
      const id = await enqueue(app, 'k');
      await until(() => second.ids.includes(id));
      expect([first.ids, first.closed, second.ids]).toEqual([[old], 1, [id]]);
      await applications.close();
    } finally {
      await dataSource.destroy();
    }
  });

  it('G5: with metrics, beside one that still publishes: the registry shows the next one, and the end of the first changes nothing', async () => {
    const registry = new Registry();
    const metrics = metricsIn(registry);
    const module = (transport: CollectingTransport) =>
      OutboxModule.forRoot(quiet({ transports: { default: transport } }));
    const published = async (): Promise<string | undefined> =>
      (await registry.metrics()).split('\n').find((line) => line.startsWith('outbox_messages_enqueued_total{'));
    const [slow, next] = [new GatedTransport(), new CollectingTransport()];
    const first = await build([typeOrm(database), module(slow)], [metrics]).compile();
    await first.init();
    await enqueue(first, 'k');
    await until(() => slow.handed.length > 0);
    const closing = first.close();
    const app = await applications.start(build([typeOrm(database), module(next)], [metrics]));
    await enqueue(app, 'other', 2);
    await enqueue(app, 'other', 3);
    await until(async () => (await published())?.endsWith(' 2') === true);
    slow.gate.open();
    await closing;
    expect(await published()).toBe('outbox_messages_enqueued_total{outbox="default"} 2');
    await applications.close();
    expect(registry.getMetricsAsArray()).toEqual([]);
  });

  it('G5: with metrics, beside one of an earlier test that nobody closed', async () => {
    const registry = new Registry();
    const start = (prefix: string) =>
      applications.start(
        build([typeOrm(database), OutboxModule.forRoot(quiet({ database: { prefix } }))], [metricsIn(registry)]),
      );
    await start('a_');
    const app = await start('b_');
    await enqueue(app, 'k');
    await until(async () => (await registry.metrics()).includes('outbox_messages_enqueued_total{outbox="default"} 1'));
    expect((await registry.metrics()).match(/^outbox_messages_enqueued_total\{/gm)).toHaveLength(1);
  });

  it('G5: twenty times with RabbitMQ, closed at work or at once: no connection and no handle is left', async () => {
    const handles = (): number => process.getActiveResourcesInfo().filter((one) => one !== 'Immediate').length;
    const proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
    const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${proxy.host}:${proxy.port}`;
    try {
      const queue = await observer.queue();
      const cycle = async (works: boolean): Promise<void> => {
        const transports = { default: rabbitmq({ url: url.href, routingKey: () => queue }) };
        const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ transports }))]));
        const id = await enqueue(app, 'k');
        if (works) {
          await observer.receivedUpTo(queue, id);
          expect(proxy.open).toBe(1);
        }
        await applications.close();
        await until(() => proxy.open === 0);
      };
      await cycle(true);
      const before = handles();
      for (let i = 1; i <= 20; i += 1) await cycle(i % 2 === 0);
      expect(proxy.accepted).toBeGreaterThanOrEqual(11);
      await until(() => handles() <= before);
    } finally {
      await observer.close();
      await proxy.close();
    }
  });
});
