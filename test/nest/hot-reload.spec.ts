import type { Provider } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { Registry } from 'prom-client';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { OutboxPrometheus } from '../../lib/prometheus/index.js';
import { describeOnEach } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  GatedTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

/** What a development server does to a process that it does not end. */
describeOnEach(['rabbitmq'], 'an application that is started again in its process', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const metricsIn = (registry: Registry): Provider => ({
    provide: OutboxPrometheus,
    inject: [OutboxService],
    useFactory: (outbox: OutboxService) => new OutboxPrometheus(outbox, { registry }),
  });
  const enqueue = (app: TestingModule, key: string, n = 1): Promise<string> =>
    app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced(key, n));

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
});
