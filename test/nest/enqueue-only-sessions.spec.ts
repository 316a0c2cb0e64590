import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeOnEach, requiredUrl } from '../support/services.js';
import { until } from '../support/until.js';
import { build, enqueueIn, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

/** Longer than an unused connection is kept. */
const TIME = 60_000;

describeOnEach([], 'sessions of an application without a running relay', (kind) => {
  const used = useApplications(kind);
  const { applications } = used;
  let server: DataSource;

  beforeAll(async () => {
    server = await new DataSource({ type: kind, url: requiredUrl(kind) }).initialize();
  });
  afterAll(() => server.destroy());

  /** All of the database, but for the one of the application's own pool. */
  const sessions = async (): Promise<number> => {
    const name = new URL(used.database.url).pathname.slice(1);
    const rows = (await server.query(
      kind === 'postgres'
        ? `select pid from pg_stat_activity where datname = '${name}'`
        : `select id from information_schema.processlist where db = '${name}'`,
    )) as unknown[];
    return rows.length - 1;
  };
  const start = (relay: false | 'manual') => {
    const one = { extra: kind === 'postgres' ? { max: 1, idleTimeoutMillis: 0 } : { connectionLimit: 1 } };
    const database = { ...used.database, options: { ...used.database.options, ...one } };
    return applications.start(build([typeOrm(database as never), OutboxModule.forRoot(quiet({ relay }))]));
  };

  it.each([false, 'manual'] as const)(
    'Q4: relay: %s: none is left once nothing is asked, and what is enqueued then is told to relays all the same',
    async (relay) => {
      const app = await start(relay);
      const outbox = app.get(OutboxService);
      const errors: unknown[] = [];
      outbox.events.on('error', (event) => errors.push(event));
      const enqueue = () =>
        enqueueIn(app.get(DataSource), (manager) => outbox.enqueue(new OrderPlaced('a'), { manager }));
      await enqueue();
      await until(async () => (await sessions()) === 0, TIME);
      await enqueue();
      expect((await outbox.stats()).total.ready).toBe(relay === false ? 2 : 4);
      expect(await sessions()).toBeGreaterThan(0);
      await until(async () => (await sessions()) === 0, TIME);
      expect(errors).toEqual([]);
    },
    TIME * 3,
  );

  it(
    'Q4: a relay keeps its own, whatever it waits for',
    async () => {
      const app = await applications.start(
        build([typeOrm(used.database), OutboxModule.forRoot(quiet({ pollInterval: 60_000 }))]),
      );
      await until(async () => (await sessions()) >= 3, TIME);
      const before = await sessions();
      await new Promise((resolve) => setTimeout(resolve, 7_000));
      expect(await sessions()).toBeGreaterThanOrEqual(Math.min(3, before));
      await app.close();
    },
    TIME * 3,
  );
});
