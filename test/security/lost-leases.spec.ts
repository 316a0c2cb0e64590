import { DataSource, type DataSourceOptions } from 'typeorm';
import type { OutboxStore } from '../../lib/index.js';
import { healthOf } from '../../lib/observe/health.js';
import { readStats } from '../../lib/observe/stats.js';
import { openStore } from '../support/open-store.js';
import { createUser } from '../readme/sql.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASE, SETTINGS } from '../support/postgres-store.js';
import { describeWith, DATABASES, dialectOf } from '../support/services.js';
import { textsOf } from '../support/reasons.js';

describe.each(DATABASES)('lease rows that somebody deleted', (kind) => {
  describeWith(kind, kind, () => {
    let database: TestDatabase;
    let db: DataSource;
    let store: OutboxStore;
    const opened: OutboxStore[] = [];
    const open = (application: DataSource): OutboxStore => {
      const one = openStore(application, { ...SETTINGS, onPublished: 'delete', options: DATABASE });
      opened.push(one);
      return one;
    };
    beforeEach(async () => {
      database = await createTestDatabase(kind);
      db = await new DataSource(database.options).initialize();
      store = open(db);
      await store.setup.create(SETTINGS);
      await store.setup.transports(['default'], 'default');
    });
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((one) => one.close()));
      await db.destroy();
      await database.drop();
    });
    const acquire = (owner: string) => store.leases.acquire({ owner, leaseMs: 60_000, transport: 0, limit: 100 });
    const start = (one = store) => one.setup.transports(['default'], 'default');

    it('I8: are there again after the next start, all or some, with a later epoch', async () => {
      await db.query('delete from outbox_leases where bucket <> 3');
      await db.query('update outbox_leases set epoch = 7');
      await start();
      const taken = await acquire('a');
      expect(taken.map(({ bucket }) => bucket)).toEqual(Array.from({ length: SETTINGS.buckets }, (_, n) => n));
      expect(taken[3]?.epoch).toBe('8');
      expect(Number(taken[4]?.epoch)).toBeGreaterThan(1_700_000_000);
      await start(); // touches no lease that is held
      expect((await store.leases.renew('a', 60_000)).length).toBe(SETTINGS.buckets);
    });

    it('I8: are nobody’s until every instance that was alive had to renew', async () => {
      await store.leases.beat({ owner: 'alive', transports: [0], info: '' }, 60_000);
      await db.query('delete from outbox_leases');
      await start();
      expect(await acquire('a')).toEqual([]);
      await db.query(`update outbox_instances set expires_at = ${PAST[dialectOf(kind)]}`);
      await db.query('delete from outbox_leases');
      await start();
      expect((await acquire('a')).length).toBe(SETTINGS.buckets);
    });

    it('I10: are told by health, for as long as they are gone', async () => {
      const reasons = async () => {
        const stats = await readStats(store, new Map([['default', 0]]));
        return [stats.transports['default']?.missingLeases, ...textsOf(healthOf({ ...HEALTHY, stats }))];
      };
      expect(await reasons()).toEqual([0]);
      await db.query('delete from outbox_leases where bucket < 3');
      expect(await reasons()).toEqual([3, expect.stringMatching(/^3 lease rows of 'default' are missing/)]);
      await db.query('delete from outbox_leases');
      expect(await reasons()).toEqual([SETTINGS.buckets, expect.stringContaining('nobody publishes')]);
      await start();
      expect(await reasons()).toEqual([0]);
    });

    it('I8: stay away, and the start goes on, where the login may not make them', async () => {
      const user = await createUser(db, kind, 'shop_api');
      const application = await new DataSource({
        ...database.options,
        url: user.url,
      } as DataSourceOptions).initialize();
      try {
        await db.query('delete from outbox_leases');
        expect((await start(open(application))).get('default')).toBe(0);
        expect(await acquire('a')).toEqual([]);
      } finally {
        await opened.pop()?.close();
        await application.destroy();
        await user.drop();
      }
    });
  });
});

const HEALTHY = {
  mode: true,
  relay: { running: true, storeDownFor: null, transports: [] },
  transports: new Map(),
} as const;
const PAST = { postgres: `'-infinity'`, mysql: `'1970-01-01 00:00:00'` } as const;
