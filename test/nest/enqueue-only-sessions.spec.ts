import { DataSource } from 'typeorm';
import { IdleClose } from '../../lib/data-layers/drivers/own-connection.js';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { FakeClock } from '../../lib/testing/index.js';
import { systemClock } from '../../lib/time/clock.js';
import { describeOnEach, requiredUrl } from '../support/services.js';
import { until } from '../support/until.js';
import { build, enqueueIn, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

/** Milliseconds: "never". */
const TIME = 60_000;
/** Milliseconds for which an unused connection is kept. */
const KEPT = 5_000;

describeOnEach([], 'sessions of an application without a running relay', (kind) => {
  const used = useApplications(kind);
  const { applications } = used;
  let server: DataSource;

  beforeAll(async () => {
    server = await new DataSource({ type: kind, url: requiredUrl(kind) }).initialize();
  });
  afterAll(() => server.destroy());

  /** Of connections that nobody uses: it passes when a test says so. */
  let idle: FakeClock;
  /** For how long connections of the outbox are kept; `undefined`: for ever. */
  let kept: Set<number | undefined>;
  beforeEach(() => {
    idle = new FakeClock();
    kept = new Set();
    const closes = new Set<() => void>();
    const { during } = IdleClose.prototype;
    jest.spyOn(IdleClose.prototype, 'during').mockImplementation(function (this: IdleClose, work) {
      kept.add(this.after);
      closes.add(this.close);
      return during.call(this, work);
    });
    const { after } = systemClock;
    jest
      .spyOn(systemClock, 'after')
      .mockImplementation((ms, action) => (closes.has(action) ? idle.after(ms, action) : after(ms, action)));
  });
  afterEach(() => jest.restoreAllMocks());

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
      const unused = () => until(async () => (await idle.advance(KEPT), (await sessions()) === 0), TIME);
      await enqueue();
      await unused();
      await enqueue();
      expect((await outbox.stats()).total.ready).toBe(relay === false ? 2 : 4);
      await idle.advance(KEPT - 1);
      expect(await sessions()).toBeGreaterThan(0);
      await unused();
      expect({ errors, kept: [...kept] }).toEqual({ errors: [], kept: [KEPT] });
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
      await idle.advance(TIME);
      expect(await sessions()).toBeGreaterThanOrEqual(Math.min(3, before));
      expect([...kept]).toEqual([undefined]); // a connection that is told to end is still there for a moment
      await app.close();
    },
    TIME * 3,
  );
});
