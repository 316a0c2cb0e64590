import type { EnqueueOptions, OutboxOptions } from '../../lib/index.js';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeOnEach } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  MoodyTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
  withoutPolls,
} from './support/app.js';

const pollInterval = '1m';
const COORDINATIONS = [
  ['buckets', 'key'],
  ['rowLock', 'none'],
] as const;

describeOnEach([], 'B15: a message that falls due before the next look', (kind) => {
  const { applications, database } = useApplications(kind);
  let dataSource: DataSource;

  /** Each way of coordination has its tables, which are made once, and are empty at the end of each test. */
  const start = async (options: Partial<OutboxOptions> & Pick<OutboxOptions, 'coordination'>) => {
    const tables = { database: { prefix: options.coordination === 'rowLock' ? 'rows_' : 'buckets_' } };
    const outbox = OutboxModule.forRoot(quiet({ pollInterval, ...tables, ...options }));
    const app = await applications.start(withoutPolls(build([typeOrm(database), outbox])));
    dataSource = app.get(DataSource);
    return app.get(OutboxService);
  };
  /** A relay that is through with its start: it never looks of itself. */
  const relay = async (options: Parameters<typeof start>[0], transport = new CollectingTransport()) => {
    const outbox = await start({ transports: { default: transport }, ...options });
    const { ids } = transport;
    await publishes(outbox, ids, 0, { delay: 1 });
    return { outbox, ids };
  };
  /** @param ms milliseconds before which it must not be there */
  const publishes = async (outbox: OutboxService, ids: readonly string[], ms: number, settings: EnqueueOptions) => {
    const at = performance.now();
    const id = await outbox.enqueueOutsideTransaction(new OrderPlaced('a'), settings);
    await until(() => ids.includes(id));
    expect(performance.now() - at).toBeGreaterThan(ms - 1);
  };

  it.each(COORDINATIONS)('is published in its time: %s', async (coordination, ordering) => {
    const { outbox, ids } = await relay({ coordination, ordering });
    await publishes(outbox, ids, 400, { delay: 400 });
    await publishes(outbox, ids, 0, { delay: 33.7 });
    await publishes(outbox, ids, 0, { deliverAt: new Date(0) });
    await publishes(outbox, ids, 0, { deliverAt: new Date(Date.now() + 300) });
  });

  it.each(COORDINATIONS)('is tried again in its time: %s', async (coordination, ordering) => {
    const transport = new MoodyTransport();
    transport.refuses = false;
    const { outbox, ids } = await relay({ coordination, ordering, retry: { initial: '400ms' } }, transport);
    transport.refuses = true;
    const retried = [outbox.events.once('retried'), outbox.events.once('retried')];
    const enqueued = [new OrderPlaced('a'), new OrderPlaced('b')].map((event) =>
      outbox.enqueueOutsideTransaction(event),
    );
    await Promise.all(retried);
    transport.refuses = false;
    const both = await Promise.all(enqueued);
    await until(() => both.every((id) => ids.includes(id)));
  });

  if (kind === 'postgres') {
    it.each(COORDINATIONS)('is published in its time by another process: %s', async (coordination, ordering) => {
      const { ids } = await relay({ coordination, ordering });
      const api = await start({ relay: false, coordination, ordering });
      await publishes(api, ids, 400, { delay: 400 });
      await publishes(api, ids, 0, { deliverAt: new Date(0) });
    });

    it('what an operator requeues in another process is published at once', async () => {
      const [coordination, transport] = ['buckets', new MoodyTransport()] as const;
      await start({ coordination, retry: { maxAttempts: 1 }, transports: { default: transport } });
      const operator = await start({ relay: false, coordination });
      const isDead = async (): Promise<boolean> =>
        (await dataSource.query('select 1 from buckets_parked where state = 4')).length > 0;
      for (const key of ['a', 'b', 'c']) {
        transport.refuses = true;
        const id = await operator.enqueueOutsideTransaction(new OrderPlaced(key));
        await until(isDead);
        transport.refuses = false;
        expect((await operator.requeue({ ids: [id] })).changed).toEqual([id]);
        await until(() => transport.ids.includes(id));
      }
    });
  }
});
