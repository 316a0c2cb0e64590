import { TABLE_NAMES } from '../../../lib/store/names.js';
import type { MysqlDedupKeys } from '../../../lib/store/mysql/ready/dedup-keys.js';
import { randomUUID } from 'node:crypto';
import { openMysqlDatabase } from '../../../lib/data-layers/typeorm/mysql.js';
import type { ConnectionRole, SqlConnection, SqlDatabase } from '../../../lib/store/executor.js';
import { TimedSelect } from '../../../lib/store/mysql/inspect/select.js';
import { MysqlStore } from '../../../lib/store/mysql/store.js';
import { PAGE_LOOK, type StoredRow } from '../../../lib/store/inspect-store.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type { Death } from '../../../lib/store/parked-store.js';
import { statement } from '../../../lib/store/sql.js';
import { series } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const ROWS = 500_000;
const BUCKETS = 32;
const TRANSPORT = 0;
const ALL = Array.from({ length: BUCKETS }, (_, bucket) => bucket);
const STATUS = { mariadb: 'information_schema.session_status', mysql: 'performance_schema.session_status' };
const READS = (status: string) =>
  statement(
    undefined,
    `select sum(variable_value) from ${status} where variable_name in
  ('Handler_read_first', 'Handler_read_key', 'Handler_read_last', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')`,
  );
const SORTED = (status: string) =>
  statement(undefined, `select variable_value from ${status} where variable_name = 'Sort_rows'`);
const STATEMENTS = (status: string) =>
  statement(undefined, `select variable_value from ${status} where variable_name = 'Questions'`);

/**
 * Every statement that runs while messages flow, on 500 k ready and 500 k parked rows, with the statistics of empty
 * tables: the server's own count of rows that it touched must not grow with the tables.
 */
describeOnMysqlFamily('plans', (kind) => {
  const stores = new MariaDbStores(kind, { buckets: BUCKETS, statementTimeout: 120_000 });
  let database: SqlDatabase;
  let store: MysqlStore;
  let owner: string;
  let leases: Lease[];

  beforeAll(async () => {
    await stores.start();
    database = openMysqlDatabase(stores.application, stores.storeSettings);
    store = new MysqlStore(database, stores.storeSettings);
    // The other way of reads is for servers on which this one is slow, as it may be here, too: it has a test of its own.
    Object.assign(store.ready.bounded, { restUntil: Infinity, tried: Infinity });
    // Rows are counted here, and a look is over when it has seen its own, however long that takes.
    const { select } = TimedSelect.prototype;
    jest.spyOn(TimedSelect.prototype, 'select').mockImplementation(function (this: TimedSelect, deadline, ...rest) {
      return select.call(this, deadline + 100_000, ...rest);
    });
    owner = randomUUID();
    await store.setup.transports(['default', 'other'], 'default');
    leases = await store.leases.acquire({ owner, leaseMs: 36_000_000, transport: TRANSPORT, limit: BUCKETS });
    for (const table of TABLE_NAMES)
      await run(`alter table outbox_${table} stats_auto_recalc = 0, stats_persistent = 1`);
    for (const table of TABLE_NAMES) await run(`analyze table outbox_${table}`);
    // MySQL counts the rows of open tables. When it closes one, to open those of other tests, it goes back to these statistics.
    const keeper = stores.application.createQueryRunner();
    for (const table of TABLE_NAMES) await keeper.query(`handler outbox_${table} open`);
    await run(`insert into outbox_ready (transport, id, topic, \`key\`, bucket, type, payload)
      select 0, uuid(), 't', concat('k', seq % 5000), seq % ${BUCKETS}, 't', 'x' from ${series(kind, ROWS)}`);
    // 100 k behind one failing key, 100 k behind others, 100 k scheduled for later, 200 k dead of a foreign transport
    await run(`insert into outbox_parked (transport, id, topic, \`key\`, bucket, type, seq, state, blocking, due_at)
      select 0, uuid(), 't', 'failing', 3, 't', seq, 3, 1, null from ${series(kind, 100_000)}`);
    await run(`insert into outbox_parked (transport, id, topic, \`key\`, bucket, type, seq, state, blocking, due_at)
      select 0, uuid(), 't', concat('b', seq % 100), seq % 100 % ${BUCKETS}, 't', seq, 3, 1, null from ${series(kind, 100_000)}`);
    await run(`insert into outbox_parked (transport, id, topic, \`key\`, bucket, type, seq, state, blocking, due_at)
      select 0, uuid(), 't', null, seq % ${BUCKETS}, 't', 0, 1, 0, utc_timestamp(6) + interval 50 minute + interval seq microsecond from ${series(kind, 100_000)}`);
    await run(`insert into outbox_parked (transport, id, topic, \`key\`, bucket, type, seq, state, blocking, died_at, announced)
      select 1, uuid(), 't', null, seq % ${BUCKETS}, 't', seq, 4, 0, utc_timestamp(6), 1 from ${series(kind, 200_000)}`);
  }, 600_000);
  afterAll(async () => {
    jest.restoreAllMocks();
    await store?.close();
    await stores.stop();
  });

  const run = (sql: string) => database.connection('admin').run(statement(undefined, sql).bind());
  const status = async (of: SqlConnection, what: typeof READS) =>
    Number((await of.run(what(STATUS[kind]).bind())).rows[0]?.[0]);

  /** Rows that the server touched on this connection while `work` ran, and rows that it sorted. */
  async function touched(
    role: ConnectionRole | SqlConnection,
    work: () => Promise<unknown>,
  ): Promise<{ read: number; sorted: number }> {
    const connection = typeof role === 'string' ? database.connection(role) : role;
    const sortedBefore = await status(connection, SORTED);
    const [first, before] = [await status(connection, READS), await status(connection, READS)];
    await work();
    const after = await status(connection, READS);
    return { read: after - before - (before - first), sorted: (await status(connection, SORTED)) - sortedBefore };
  }
  async function expectCheap(
    role: ConnectionRole | SqlConnection,
    most: number,
    work: () => Promise<unknown>,
  ): Promise<void> {
    await work(); // the server's settings are read once
    const { read, sorted } = await touched(role, work);
    expect(read).toBeLessThanOrEqual(most);
    expect(sorted).toBeLessThanOrEqual(most);
  }
  const head = async (): Promise<string> => String((await run('select max(seq) - 100 from outbox_ready')).rows[0]?.[0]);
  const oldest = async (bucket: number, limit: number) => {
    const positions = [{ bucket, after: '0' }];
    return (await store.ready.fetch({ transport: 0, positions, perBucket: limit, limit })).messages;
  };
  const after = (seq: string) => ALL.map((bucket) => ({ bucket, after: seq }));

  it('fetches from the head, from behind a backlog, and finds nothing', async () => {
    const last = await head();
    const fetch = (positions: { bucket: number; after: string }[], perBucket: number) =>
      store.ready.fetch({ transport: TRANSPORT, positions, perBucket, limit: 500 });
    await expectCheap('read', 700, () => fetch(after('0'), 16));
    await expectCheap('read', 600, () => fetch([{ bucket: 3, after: '250000' }], 500));
    await expectCheap('read', 250, () => fetch(after(last), 16));
    await expectCheap('read', 100, () => fetch(after('99999999'), 16));
  });

  it('fetches whole buckets from their first row, and no more than it returns', async () => {
    const { bounded } = store.ready;
    bounded.until = Infinity;
    try {
      const fetch = () => store.ready.fetch({ transport: TRANSPORT, positions: after('0'), perBucket: 16, limit: 500 });
      await expectCheap('read', 1_200, fetch);
    } finally {
      bounded.until = -Infinity;
    }
  });

  it('sweeps and probes no more than the range', async () => {
    const last = await head();
    const ranges = ALL.map((bucket) => ({ bucket, after: last, upTo: '99999999' }));
    await expectCheap('read', 250, () => store.ready.sweep(TRANSPORT, ranges));
    await expectCheap('read', 600, () => store.ready.probe(TRANSPORT, ranges));
    const { places } = await store.ready.sweep(TRANSPORT, ranges);
    await expectCheap('read', 5 * places.length, () => store.ready.readPlaces(TRANSPORT, places));
  });

  it.each(['delete', 'archive'] as const)('settles by primary key (%s), 500 and 1,000 at once', async (onPublished) => {
    for (const count of [500, 1_000]) {
      const messages = await oldest(5, count);
      const list = messages.map(({ bucket, seq, id }) => ({ bucket, seq, id, attempts: 0, parkedId: null }));
      const { read } = await touched('settle', () => store.ready.settle(0, list, onPublished));
      expect(read).toBeLessThan(12 * count);
    }
  });

  it('parks and settles what was parked by key', async () => {
    const messages = await oldest(6, 500);
    const entries = messages.map(({ bucket, seq, id }) => ({
      bucket,
      seq,
      id,
      state: 'waiting' as const,
      blocks: false,
      attempts: 1,
      delay: 0,
      error: 'no',
    }));
    expect((await touched('settle', () => store.ready.park(owner, leases, entries))).read).toBeLessThan(
      12 * entries.length,
    );
    const list = messages.map(({ bucket, seq, id }) => ({ bucket, seq, id, attempts: 0, parkedId: null }));
    expect((await touched('settle', () => store.ready.settle(0, list, 'delete'))).read).toBeLessThan(12 * list.length);
  });

  it('polls for what is due without reading what is not', async () => {
    await expectCheap('read', 100, () => store.parked.due(0, ALL, 100));
    await expectCheap('read', 10, () => store.parked.hasten(0, ALL, { topics: null, from: null, limit: 2_000 }));
    await run(`update outbox_parked set due_at = utc_timestamp(6) where transport = 0 and state = 1 and bucket = 7`);
    await expectCheap('read', 600, () => store.parked.due(0, ALL, 100));
  });

  it('goes on with a key that 100 k rows wait behind', async () => {
    await expectCheap('settle', 2_500, async () => {
      const request = { owner, transport: 0, leases, due: [], keys: [{ bucket: 3, key: 'failing' }], perKey: 100 };
      const { messages } = await store.parked.take(request);
      await store.parked.repark(
        owner,
        leases,
        messages.map(({ parkedId, bucket, attempts }) => ({
          parkedId: parkedId as string,
          bucket,
          state: 'blocked' as const,
          blocks: true,
          attempts,
          attemptsBefore: attempts,
          delay: null,
          error: null,
        })),
      );
    });
    await expectCheap('read', 8_000, () => store.parked.blockingKeys(TRANSPORT, ALL, 1_000));
    await expectCheap('read', 8_000, () => store.parked.blockingKeys(TRANSPORT, ALL, 1));
    await expectCheap('read', 50, () =>
      store.parked.blockedAmong(0, [
        { bucket: 3, key: 'failing' },
        { bucket: 3, key: 'none' },
      ]),
    );
  });

  it('works with leases, dead letters and old rows by key', async () => {
    await expectCheap('lease', 400, () => store.leases.renew(owner, 36_000_000));
    await expectCheap('lease', 200, () =>
      store.leases.acquire({ owner, leaseMs: 1_000, transport: TRANSPORT, limit: 4 }),
    );
    await expectCheap('read', 200, () => store.ready.flush());
    await expectCheap('admin', 200, () => store.parked.unannouncedDead([0, 1], 100));
    await run('update outbox_parked set announced = 0 where transport = 1');
    await expectCheap('admin', 200, () => store.parked.unannouncedDead([0, 1], 100));
    const first = (await store.parked.unannouncedDead([1], 1))[0] as Death; // all died at one time
    const half = { ...first, parkedId: String(Number(first.parkedId) + 100_000) };
    await expectCheap('admin', 200, () => store.parked.unannouncedDead([1], 100, half));
    expect(await store.parked.unannouncedDead([1], 100, half)).toHaveLength(100);
    await run('update outbox_parked set announced = 1 where transport = 1');
    await expectCheap('admin', 200, () => store.cleaner.clean('dead', 3_600_000, 100));
    await expectCheap('admin', 200, () => store.cleaner.clean('announced', 3_600_000, 100));
    await expectCheap('admin', 1_000, () => store.cleaner.clean('archive', 0, 100));
    await expectCheap('admin', 200, () => store.cleaner.clean('dedup', 0, 100));
  }, 600_000); // 200 k rows are changed twice

  it('cleans with one question, however many transports there are', async () => {
    const names = Array.from({ length: 100 }, (_, i) => `idle-${String(i)}`);
    await store.setup.transports(names, 'default');
    const admin = database.connection('admin');
    const before = await status(admin, STATEMENTS);
    expect((await store.cleaner.clean('dead', 3_600_000, 100)).removed).toBe(0);
    expect((await status(admin, STATEMENTS)) - before).toBeLessThanOrEqual(2); // its own question is the second
  });

  it('O4: frees the dedup key of what is discarded by key, among 100 k of them', async () => {
    await run(`insert into outbox_dedup (dedup_key, id, bucket, claim)
      select seq, uuid(), 1, unhex(md5(seq)) from ${series(kind, 100_000)}`);
    await run(`insert into outbox_dedup (dedup_key, id, bucket, claim)
      select id, id, bucket, unhex(md5(id)) from outbox_parked where transport = 1 order by parked_id desc limit 200`);
    const count = async () => Number((await run('select count(*) from outbox_dedup')).rows[0]?.[0]);
    const { rows } = await run('select id from outbox_dedup where length(dedup_key) > 20');
    const ids = rows.map(([id]) => String(id));
    expect(ids).toHaveLength(200);
    const keys = store.operators.parts.keys as unknown as MysqlDedupKeys;
    const free = async () => {
      const found = await keys.of(ids);
      await database.connection('admin').transaction((tx) => keys.free(tx, found, found));
    };
    await run(`delete from outbox_parked where parked_id in (
      select parked_id from (select parked_id from outbox_parked where transport = 1 order by parked_id desc limit 200) as last)`);
    const { read } = await touched('admin', free);
    expect(read).toBeLessThan(12 * ids.length);
    expect(await count()).toBe(100_000);
  });

  it('lists, explains and groups for people among a bounded number of rows, whatever the filter', async () => {
    const { inspect } = store;
    // What is looked at, what of it is read again by the filter, and the table that a union makes.
    const most = 3 * PAGE_LOOK;
    for (const state of ['dead', 'waiting', 'blocked', 'scheduled', 'ready', 'published'] as const) {
      for (const filter of [{}, { type: 'none' }, { transport: TRANSPORT, topic: 'none' }])
        await expectCheap('admin', most, () => inspect.find({ ...filter, state, after: null, limit: 50 }));
    }
    const ofKey = { key: 'k7', type: 'none', after: null, limit: 50 } as const;
    await expectCheap('admin', most, () => inspect.find({ ...ofKey, state: 'ready' }));
    await expectCheap('admin', 500, () => inspect.find({ ...ofKey, state: 'dead' })); // of 200 k that are dead
    const young = { state: 'ready', youngerThan: 60_000, type: 'none', after: null, limit: 50 } as const;
    await expectCheap('admin', most, () => inspect.find(young));
    const { rows } = await inspect.find({ state: 'ready', after: '["250000"]', limit: 1 });
    await expectCheap('admin', 3_000, () => inspect.surroundings(rows[0] as StoredRow));
    const { rows: blocked } = await inspect.find({ state: 'blocked', after: '["50000"]', limit: 1 });
    await expectCheap('admin', 100, () => inspect.surroundings(blocked[0] as StoredRow));
    await expectCheap('admin', 10 * 10_000, () => inspect.failures({ states: ['dead', 'waiting'], look: 10_000 }));
    await expectCheap('admin', 2 * 64 * 1_000, () => inspect.buckets());
    const last = () => inspect.find({ state: 'ready', after: null, limit: 1, backwards: true });
    const highest = (await last()).rows[0]?.seq as string;
    await expectCheap('admin', most, last);
    const places = BUCKETS * Number((await run('select count(*) from outbox_transports')).rows[0]?.[0]);
    await expectCheap('admin', 2 * BUCKETS * 1_010 + 6 * places, () => inspect.buckets(undefined, highest));
  }, 600_000);

  it('locks what it publishes and no more, also past what another one has locked', async () => {
    const other = stores.open();
    const connection = database.publishing?.(TRANSPORT) as SqlConnection;
    const nothing = { published: [], parked: [], reparked: [] };
    const lock = async (from: MysqlStore, work = () => Promise.resolve(nothing)) => {
      const { locked } = await from.rowLocks.withLockedRows(
        { transport: TRANSPORT, limit: 500, onPublished: 'delete' },
        work,
      );
      expect(locked).toBe(500);
    };
    try {
      // One look per bucket at what is due, and 500 rows out of 500,000.
      await expectCheap(connection, 700, () => lock(store));
      const beside = async () => {
        // The second of its passes, the one that is counted, begins at the same rows.
        const [mine, theirs] = [store.rowLocks.turns.last, other.rowLocks.turns.last];
        mine.set(TRANSPORT, (theirs.get(TRANSPORT) as number) + 2 * BUCKETS - 2);
        // What is due is found without locks, and locked by its id: some looks for each row, and none at the rest of the table.
        await expectCheap(connection, 7 * 500 + 100, () => lock(store));
        return nothing;
      };
      await lock(other, beside);
    } finally {
      await other.close();
    }
  });
});
