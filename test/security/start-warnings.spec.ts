import { DataSource, type DataSourceOptions } from 'typeorm';
import { healthOf } from '../../lib/observe/health.js';
import { readStats } from '../../lib/observe/stats.js';
import { createUser, type DatabaseUser } from '../readme/sql.js';
import { newMessage } from '../support/relay.js';
import { PostgresFixture, SETTINGS } from '../support/postgres-store.js';
import { describeWith } from '../support/services.js';
import { textsOf } from '../support/reasons.js';

const RUNNING = { running: true, storeDownFor: null, transports: [] };

describeWith('postgres', 'what others may do on PostgreSQL', () => {
  const fixture = new PostgresFixture();
  let user: DatabaseUser | undefined;
  beforeEach(() => fixture.start());
  afterEach(async () => {
    await user?.drop();
    user = undefined;
    await fixture.stop();
  });
  const run = (sql: string) => fixture.application.query(sql);

  it('I5, I10: is told at the start, and by health: rows that are hidden, a schema in which everybody may create', async () => {
    const store = fixture.store();
    await store.setup.create(SETTINGS);
    expect(await store.diagnose?.ask('warnings')).toEqual([]);
    await run('grant create on schema public to public');
    expect(await store.diagnose?.ask('warnings')).toEqual([expect.stringContaining('Everybody may create objects')]);
    await run('revoke create on schema public from public; alter table outbox_ready enable row level security');
    expect(await store.diagnose?.ask('warnings')).toEqual([]); // nothing is hidden from a superuser
    user = await createUser(fixture.application, 'postgres', 'shop_relay');
    const relay = await new DataSource({
      ...fixture.database.options,
      url: user.url,
    } as DataSourceOptions).initialize();
    const limited = fixture.store({}, relay);
    expect(await limited.diagnose?.ask('warnings')).toEqual([expect.stringContaining('Row security hides rows')]);
    await limited.setup.transports(['default'], 'default');
    const hidden = async () => {
      const stats = await readStats(limited, new Map([['default', 0]]));
      return textsOf(healthOf({ mode: true, relay: RUNNING, transports: new Map(), stats }));
    };
    expect(await hidden()).toEqual([expect.stringContaining('Row security hides messages')]);
    await run('alter table outbox_leases enable row level security');
    expect(await hidden()).toEqual([
      expect.stringMatching(/^32 lease rows of 'default' are missing, or hidden/),
      expect.stringContaining('Row security hides messages'),
    ]);
    await limited.close();
    await relay.destroy();
  });

  it('I6: a lock of a key that a stranger holds fails a COMMIT, and stops none for ever', async () => {
    const settings = { ...SETTINGS, ordering: 'strict' } as const;
    const store = fixture.store({ ordering: 'strict' });
    await store.setup.create(settings);
    const [made] = await run(`select proconfig from pg_proc where proname = 'outbox_staged_move'`);
    expect(made.proconfig).toContain('lock_timeout=10s');
    await run(`alter function outbox_staged_move() set lock_timeout = '300ms'`); // the start wants 10 s
    await expect(store.setup.check(settings)).rejects.toThrow('has other settings');
    const stranger = fixture.application.createQueryRunner();
    await stranger.query(`select pg_advisory_lock(hashtextextended('', -('outbox_staged'::regclass::oid::bigint)))`);
    const enqueue = () => fixture.committed((tx) => store.writer.insert(tx, [newMessage({ key: 'k' })]));
    await expect(enqueue()).rejects.toThrow('lock timeout');
    await stranger.query('select pg_advisory_unlock_all()');
    await stranger.release();
    await enqueue();
  });
});
