import { randomBytes } from 'node:crypto';
import { DataSource, type DataSourceOptions, type QueryRunner } from 'typeorm';
import type { OutboxStore } from '../../../lib/index.js';
import { openStore } from '../../support/open-store.js';
import type { HeldSnapshot, HeldSnapshotReport } from '../../../lib/store/diagnose/diagnose-store.js';
import { series } from '../../support/databases.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { until } from '../../support/until.js';
import { describeOnEach } from '../../support/services.js';

/** Milliseconds. */
const TURN = 60_000;

describeOnEach([], 'a snapshot that somebody holds', (kind) => {
  let harness: Harness;
  let dump: QueryRunner;
  const login = `outbox_held_${randomBytes(4).toString('hex')}`;
  const snapshot = async (): Promise<HeldSnapshotReport> => harness.store.diagnose?.ask('heldSnapshot');
  /** What another login, with rights on the tables and no others, is told. */
  const asOther = async <T>(ask: (store: OutboxStore) => Promise<T>): Promise<T> => {
    const url = new URL(harness.database.url);
    url.username = login;
    const other = await new DataSource({
      ...harness.database.options,
      url: url.href,
    } as DataSourceOptions).initialize();
    const { database, ordering, coordination, onPublished, buckets } = harness.options;
    const store = openStore(other, { options: database, ordering, coordination, onPublished, buckets });
    try {
      return await ask(store);
    } finally {
      await store.close();
      await other.destroy();
    }
  };
  const grant =
    kind === 'postgres'
      ? [`create role ${login} login`, `grant usage on schema public to ${login}`]
      : [`create user ${login}`, `grant all on *.* to ${login}`, `revoke process on *.* from ${login}`];

  beforeAll(async () => {
    harness = await createHarness(kind);
    for (const sql of grant) await harness.dataSource.query(sql);
  });
  beforeEach(async () => {
    dump = harness.dataSource.createQueryRunner();
    if (kind === 'postgres') await dump.query(`set application_name = 'pg_dump'`);
  });
  afterEach(async () => {
    await dump.query('rollback').catch(() => undefined);
    await dump.query(kind === 'postgres' ? 'reset application_name' : 'do 0').catch(() => undefined);
    await dump.release();
  });
  afterAll(async () => {
    const drop = kind === 'postgres' ? [`drop owned by ${login}`, `drop role ${login}`] : [`drop user ${login}`];
    for (const sql of drop) await harness.dataSource.query(sql);
    await harness.close();
  });

  /** Returns the number of its session. */
  const hold = async (): Promise<string> => {
    if (kind === 'postgres') {
      await dump.query('begin isolation level repeatable read');
      await dump.query('select 1 from outbox_meta');
      const [{ pid }] = (await dump.query('select pg_backend_pid() as pid')) as [{ pid: number }];
      return String(pid);
    }
    await dump.query('set session transaction isolation level repeatable read');
    await dump.query('start transaction with consistent snapshot');
    const [{ id }] = (await dump.query('select connection_id() as id')) as [{ id: string }];
    return String(id);
  };

  it('Q2: the server tells who holds it, and since when', async () => {
    const session = await hold();
    let held: HeldSnapshot | undefined;
    const idles = kind === 'postgres' ? 'idle in transaction' : 'Sleep';
    await until(async () => {
      held = (await snapshot()) as HeldSnapshot | undefined;
      // On MariaDB a snapshot of any database may be older, and the statement's end is listed a moment after its answer.
      return held?.holder === `session ${session}` && held.details.includes(idles) && (held.age ?? 0) >= 1_000;
    }, 2 * TURN);
    expect(held).toMatchObject({
      server: { postgres: 'PostgreSQL', mariadb: 'MariaDB', mysql: 'MySQL' }[kind],
      details: [kind === 'postgres' ? 'pg_dump' : new URL(harness.database.url).username, idles],
    });
    expect(held?.age).toBeLessThan(TURN * 3); // the unit of it
  });

  it('Q2: another login is told what it may know, and what it lacks', async () => {
    const session = await hold();
    const held = await asOther(async (store) => store.diagnose?.ask('heldSnapshot'));
    if (kind !== 'postgres') expect(held).toEqual({ needs: 'PROCESS' });
    else expect(held).toMatchObject({ holder: `session ${session}`, details: ['pg_dump'], age: undefined });
  });

  it('is what the metrics of the oldest snapshot tell: its age, and the transactions whose dead rows it keeps', async () => {
    await hold();
    await harness.dataSource.query(`insert into outbox_transports (id, name) values (90, 'writes')`);
    for (let n = 0; n < 20; n++)
      await harness.dataSource.query(`update outbox_transports set name = 'writes ${n}' where id = 90`);
    await until(async () => {
      const { age, transactions } = (await harness.store.diagnose?.ask('oldestSnapshot')) ?? {};
      return (age ?? 0) >= 1_000 && (transactions ?? 0) >= 20;
    }, TURN);
    const others = await asOther(async (store) => store.diagnose?.ask('oldestSnapshot'));
    if (kind !== 'postgres') expect(others).toEqual({ age: null, transactions: null });
    else expect(others).toEqual({ age: null, transactions: expect.any(Number) });
  });

  if (kind === 'postgres') {
  }

  it(
    'Q2: a relay that walks over dead rows names it in health, and tells when it begins and ends',
    async () => {
      const session = await hold();
      // Some tenths of a second of a quiet machine; where it is told that it walked, a few do.
      const rows = kind === 'postgres' ? 800_000 : 20_000;
      const columns = 'bucket, id, topic, `key`, type, payload';
      const fill =
        kind === 'postgres'
          ? `insert into outbox_ready (${columns.replaceAll('`', '')}) select n % 32, gen_random_uuid(), 't', 'k' || n % 32, 'x', '{}'
               from generate_series(1, ${rows}) n`
          : `insert into outbox_ready (${columns}) select seq % 32, uuid(), 't', concat('k', seq % 32), 'x', '{}'
               from ${series(kind, rows)}`;
      await harness.dataSource.query(fill);
      await harness.dataSource.query('delete from outbox_ready');
      const { dispatcher, hooks } = harness.relay({ default: new ScriptedTransport() });
      await dispatcher.start();
      Object.assign(dispatcher.snapshots as object, { longest: 0 });
      /** Its next read looks, and not only one of those after 15 s. */
      const isTold = (is: () => boolean): Promise<void> =>
        until(() => (Object.assign(dispatcher.snapshots as object, { lookedAt: -Infinity }), is()), TURN);
      // A quick machine walks bucket by bucket over the rows of InnoDB, and feels none of it.
      if (kind !== 'postgres') dispatcher.snapshots?.walked(1_000);
      try {
        await isTold(() => hooks.of('snapshotHeld').length > 0);
        if (kind === 'postgres') expect(hooks.of('snapshotHeld')[0]?.holder).toContain(`session ${session} (`);
        const health = await harness.health(dispatcher);
        expect(health.relay.heldSnapshot).toContain(`dead rows of outbox_ready`);
        await dump.query('rollback');
        // Some other session of this server may hold one by now, or held one before.
        const named = (): string => dispatcher.status().heldSnapshot?.text ?? '';
        await isTold(() => hooks.of('snapshotReleased').length > 0 && !named().includes(`session ${session} `));
      } finally {
        await dispatcher.stop();
      }
    },
    TURN * 8,
  );
});
