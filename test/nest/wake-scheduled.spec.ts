import type { EnqueueOptions, OutboxOptions } from '../../lib/index.js';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import {
  Applications,
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

describe.each(DATABASES)('B15: on %s', (kind) => {
  describeWith(kind, 'a message that falls due before the next look', () => {
    const applications = new Applications();
    let database: TestDatabase;
    beforeAll(async () => {
      database = await createTestDatabase(kind);
    });
    afterEach(() => applications.close());
    afterAll(() => database.drop());

    /** Each way of coordination has its tables, which are made once, and are empty at the end of each test. */
    const start = async (options: Partial<OutboxOptions> & Pick<OutboxOptions, 'coordination'>) => {
      const tables = { database: { prefix: options.coordination === 'rowLock' ? 'rows_' : 'buckets_' } };
      const outbox = OutboxModule.forRoot(quiet({ pollInterval, ...tables, ...options }));
      return (await applications.start(withoutPolls(build([typeOrm(database), outbox])))).get(OutboxService);
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

    it.each(COORDINATIONS)(
      'is published in its time, with others that fall due later: %s',
      async (coordination, ordering) => {
        const { outbox, ids } = await relay({ coordination, ordering });
        const delays = [1_200, 300, 800, 86_400_000];
        const all = await outbox.transaction(async () => [
          ...(await Promise.all(delays.map((delay) => outbox.enqueue(new OrderPlaced(`k${delay}`), { delay })))),
          await outbox.enqueue(new OrderPlaced('now')),
        ]);
        await until(() => ids.length === 5);
        expect(ids.slice(1).toSorted()).toEqual([0, 1, 2, 4].map((index) => all[index]).toSorted());
        expect(await outbox.cancel({ key: 'k86400000' })).toMatchObject({ done: 1 });
      },
    );

    it.each(COORDINATIONS)(
      'is published in its time, behind one of another transaction: %s',
      async (coordination, ordering) => {
        const { outbox, ids } = await relay({ coordination, ordering });
        const at = performance.now();
        const last = outbox.enqueueOutsideTransaction(new OrderPlaced('b'), { delay: 900 });
        await Promise.all([last, publishes(outbox, ids, 300, { delay: 300 })]);
        const id = await last;
        await until(() => ids.includes(id));
        expect(performance.now() - at).toBeGreaterThan(900 - 1);
      },
    );

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
    }
  });
});
