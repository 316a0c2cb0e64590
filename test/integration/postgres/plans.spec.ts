import { randomUUID } from 'node:crypto';
import type { PostgresDedupKeys } from '../../../lib/store/postgres/ready/dedup-keys.js';
import { OutboxMessage } from '../../../lib/outbox-message.js';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import { headsStatement, postgresRead, takeStatements } from '../../../lib/store/postgres/parked/take.js';
import { PostgresStore } from '../../../lib/store/postgres/store.js';
import { parkEntry, settled } from '../../../lib/testing/store-contract/harness.js';
import { ExplainingDatabase, nodesOf, type Explained } from '../../support/explaining-database.js';
import { DATABASE, PostgresFixture, SETTINGS } from '../../support/postgres-store.js';
import { describeWith } from '../../support/services.js';
import { operatorOf } from '../../support/operator.js';

const ROWS = 500_000;
const BLOCKED = 100_000;
const BUCKETS = Array.from({ length: SETTINGS.buckets }, (_, bucket) => bucket);
/** They sort what was limited before: a look, or the rows that one settle archives. */
const LIMITED = ['outbox_due', 'outbox_lock_keys', 'outbox_archive', 'outbox_archive_parked'];
/** What a statement may touch for each row that it reads or writes, and for each bucket that it looks into. */
const BLOCKS_PER_ROW = 30;
const BLOCKS_PER_STATEMENT = 3_000;

/**
 * Statements are prepared while the tables are empty; then the rows come, without ANALYZE. By default PostgreSQL answers
 * the same statements from the same state with sequential scans of seconds.
 */
describeWith('postgres', 'PostgreSQL plans', () => {
  const fixture = new PostgresFixture();
  const owner = randomUUID();
  let database: ExplainingDatabase;
  let store: PostgresStore;
  let leases: Lease[];

  beforeAll(async () => {
    await fixture.start();
    const settings = {
      ...SETTINGS,
      ...DATABASE,
      schema: 'public',
      onPublished: 'delete' as const,
      errorHistory: 0, // its JSON is put together from one row
      statementTimeout: 120_000,
      idleWithLocks: 30_000,
      connectTimeout: 5_000,
    };
    database = new ExplainingDatabase(openPostgresDatabase(fixture.application, settings));
    store = new PostgresStore(database, settings);
    await store.setup.create(SETTINGS);
    for (const table of ['ready', 'parked', 'archive', 'dedup', 'leases', 'instances']) {
      await fixture.application.query(`alter table outbox_${table} set (autovacuum_enabled = off)`);
    }
    await store.setup.transports(['default'], 'default');
    await everyStatement(); // prepared on empty tables
    const { lock, join, demote, mark } = takeStatements(store.names); // not reached without rows
    for (const inner of [lock, headsStatement(store.names, 'key'), join, demote, mark]) {
      await database.connection('settle').run(inner.bind(...inner.strings.slice(1).map(() => null)));
    }
    await database.connection('settle').run(postgresRead(store.names, 'text').lock(0, []));
    const keys = store.operators.parts.keys as PostgresDedupKeys;
    for (const inner of [keys.lock, keys.remove]) await database.connection('admin').run(inner.bind(null));
    await load();
    leases = await store.leases.acquire({ owner, leaseMs: 36_000_000, transport: 0, limit: 100 });
    database.explaining = true;
    await everyStatement();
    database.explaining = false;
  }, 600_000);
  afterAll(async () => {
    await store?.close();
    await fixture.stop();
  });

  async function load(): Promise<void> {
    const content = `gen_random_uuid(), 'orders', 't', convert_to(repeat('x', 100), 'UTF8')`;
    await fixture.application.query(`insert into outbox_ready (bucket, key, id, topic, type, payload)
      select g % 32, 'k' || g % 5000, ${content} from generate_series(1, ${ROWS}) g`);
    await fixture.application.query(`insert into outbox_parked (bucket, key, state, due_at, id, topic, type, payload)
      select g % 32, 'k' || g % 5000, 1, now() + interval '50 min', ${content} from generate_series(1, ${ROWS}) g`);
    await fixture.application.query(`insert into outbox_parked (bucket, key, state, blocking, id, topic, type, payload)
      select 1, 'poison', case when g = 1 then 4 else 3 end, true, ${content} from generate_series(1, ${BLOCKED}) g`);
    await fixture.application
      .query(`insert into outbox_parked (bucket, key, state, blocking, due_at, id, topic, type, payload)
      values (3, 'soon', 1, false, now(), ${content}), (1, 'poison', 2, true, now(), ${content})`);
    await fixture.application.query(`insert into outbox_archive (bucket, seq, id, topic, type, payload, published_at)
      select g % 32, g, ${content}, now() - g * interval '1 s' from generate_series(1, ${BLOCKED}) g`);
    await fixture.application.query(`insert into outbox_dedup (dedup_key, id, created_at, transports, buckets, seqs)
      select id, id, now() + interval '1 d', array[transport], array[bucket], array[seq] from outbox_parked where state = 1`);
  }

  /** For the statements that are not sent at all without a message. */
  const nobody = (seq: number): OutboxMessage =>
    new OutboxMessage({
      bucket: 1,
      seq: String(seq),
      id: randomUUID(),
      topic: 't',
      key: null,
      type: 't',
      version: 1,
      contentType: 'x',
      headersJson: null,
      optionsJson: null,
      body: null,
      createdText: '2026-01-01 00:00:00+00',
      attempts: 0,
      parkedId: null,
      parkedState: null,
    });

  /** One of each, the way the relay calls them. */
  async function everyStatement(): Promise<void> {
    const held = leases ?? [{ transport: 0, bucket: 0, epoch: '1' }];
    const positions = BUCKETS.map((bucket) => ({ bucket, after: '0' }));
    const fetched = await store.ready.fetch({ transport: 0, positions, perBucket: 16, limit: 500 });
    const messages = fetched.messages.length > 0 ? fetched.messages : [nobody(1), nobody(250), nobody(350)];
    const part = (from: number, to: number) => (fetched.messages.length > 0 ? messages.slice(from, to) : messages);
    const upTo = messages.at(-1)?.seq ?? '10';
    const everything = BUCKETS.map((bucket) => ({ bucket, after: '0', upTo }));
    const { places } = await store.ready.sweep(0, everything);
    await store.ready.readPlaces(0, places, fetched.snapshot);
    await store.ready.settle(0, part(0, 200).map(settled), 'delete');
    await store.ready.settle(0, part(200, 300).map(settled), 'archive');
    await store.ready.settle(
      0,
      part(0, 100).map((m) => ({ ...settled(m), parkedId: '1' })),
      'archive',
    );
    await store.ready.settle(
      0,
      part(0, 100).map((m) => ({ ...settled(m), parkedId: '1' })),
      'delete',
    );
    await store.ready.park(
      owner,
      held,
      part(300, 500).map((m) => parkEntry({ ...m, key: null } as never, { delay: 0 })),
    );
    const { rows } = await store.parked.due(0, BUCKETS, 100);
    const keys = [
      { bucket: 1, key: 'poison' },
      { bucket: 2, key: 'k2' },
    ];
    const request = { owner, transport: 0, leases: held, perKey: 100 };
    const taken = await store.parked.take({ ...request, due: rows, keys });
    if (rows.length === 0)
      await store.parked.take({ ...request, due: [{ parkedId: '1', bucket: 0, key: 'k', state: 'scheduled' }], keys });
    const entries = taken.messages.map((m) => ({
      parkedId: m.parkedId as string,
      bucket: m.bucket,
      state: 'dead' as const,
      blocks: false,
      attempts: 1,
      attemptsBefore: m.attempts,
      delay: null,
      error: 'x',
    }));
    await store.parked.repark(owner, held, entries);
    await store.parked.blockingKeys(0, BUCKETS, 1000);
    await store.parked.blockedAmong(0, keys);
    const nothing = { published: [], parked: [], reparked: [] };
    // What is due is asked first one time, what is ready the other; one of them fills the limit.
    for (let turn = 0; turn < 2; turn += 1)
      await store.rowLocks.withLockedRows({ transport: 0, limit: 500, onPublished: 'delete' }, () =>
        Promise.resolve(nothing),
      );
    await store.parked.hasten(0, BUCKETS, { topics: null, from: null, limit: 2_000 });
    const dead = await store.parked.unannouncedDead([0], 100);
    await store.parked.markAnnounced(dead.length > 0 ? dead : [{ transport: 0, parkedId: '1', died: '0' }]);
    await store.leases.renew(owner, 36_000_000);
    await store.leases.beat({ owner, transports: [0], info: '' }, 600_000);
    await store.leases.expire();
    const some = await fixture.application.query(`select id from outbox_parked where state = 1 limit 100`);
    await operatorOf(store).cancel({ ids: [randomUUID(), ...some.map(({ id }: { id: string }) => id)] });
    await store.cleaner.clean('archive', 0, 500);
    await store.cleaner.clean('dead', 0, 500);
    await store.cleaner.clean('dedup', 0, 500);
    await store.ready.flush();
    if (leases === undefined) await store.leases.acquire({ owner: randomUUID(), leaseMs: 1, transport: 0, limit: 1 });
  }

  const SMALL = new Set(['outbox_leases', 'outbox_instances', 'outbox_meta', 'outbox_transports', 'outbox_pauses']);
  const readsByName = (): Map<string, Explained> =>
    new Map(database.explained.map((explained) => [explained.name, explained]));

  it('has seen every hot statement', () => {
    expect([...readsByName().keys()].sort()).toEqual([
      'outbox_announced',
      'outbox_archive',
      'outbox_archive_parked',
      'outbox_blocked_among',
      'outbox_blocking_keys',
      'outbox_clean_archive',
      'outbox_clean_dead',
      'outbox_clean_dedup',
      'outbox_demote',
      'outbox_due',
      'outbox_fetch_text',
      'outbox_flush',
      'outbox_free_keys',
      'outbox_heads',
      'outbox_held',
      'outbox_join_order',
      'outbox_lock_due_text',
      'outbox_lock_keys',
      'outbox_lock_parked',
      'outbox_lock_ready_text',
      'outbox_mark',
      'outbox_park',
      'outbox_places_text',
      'outbox_repark',
      'outbox_settle',
      'outbox_settle_parked',
      'outbox_sweep',
      'outbox_take_text',
      'outbox_unannounced_text',
      'outbox_untried',
    ]);
  });

  it('scans no table, and reads rows through the one index that knows them', () => {
    const used = Object.fromEntries(
      database.explained.map(({ name, plan }) => {
        const scans = nodesOf(plan).filter(
          (node) => /Scan/.test(node['Node Type']) && node['Relation Name'] !== undefined,
        );
        const large = scans.filter(
          (node) => node['Node Type'] !== 'Tid Scan' && !SMALL.has(node['Relation Name'] as string),
        );
        return [
          name,
          [
            ...new Set(large.map((node) => node['Index Name'] ?? `${node['Node Type']} ${node['Relation Name']}`)),
          ].sort(),
        ];
      }),
    );
    const ready = ['outbox_ready_pkey'];
    const [byId, byKey, byMessage] = [
      ['outbox_parked_pkey'],
      ['outbox_parked_blocking'],
      'outbox_parked_id_transport_seq_key',
    ];
    expect(used).toEqual({
      outbox_announced: byId,
      outbox_archive: ready,
      outbox_archive_parked: [...byKey, byMessage],
      outbox_blocked_among: byKey,
      outbox_blocking_keys: byKey,
      outbox_clean_archive: ['outbox_archive_pkey'],
      outbox_clean_dead: ['outbox_parked_died'],
      outbox_clean_dedup: ['outbox_dedup_created', byMessage, ...ready],
      outbox_demote: byId,
      outbox_due: ['outbox_parked_due'],
      outbox_fetch_text: ready,
      outbox_flush: [],
      outbox_free_keys: ['outbox_dedup_pkey', byMessage, ...ready],
      outbox_heads: byKey,
      outbox_lock_due_text: ['outbox_parked_due'],
      outbox_lock_parked: byId,
      outbox_mark: byId,
      outbox_take_text: byId,
      outbox_lock_keys: ['outbox_dedup_id'],
      outbox_lock_ready_text: ready,
      outbox_held: [],
      outbox_join_order: byId,
      outbox_park: ready,
      outbox_places_text: ready,
      outbox_repark: byId,
      outbox_settle: ready,
      outbox_settle_parked: [...byKey, byMessage],
      outbox_sweep: ready,
      outbox_unannounced_text: ['outbox_parked_unannounced'],
      outbox_untried: ['outbox_parked_untried'],
    });
  });

  it('sorts nothing but what was limited before', () => {
    const sorts = database.explained.filter(({ plan }) => nodesOf(plan).some((node) => /Sort/.test(node['Node Type'])));
    expect(
      [...new Set(sorts.map(({ name }) => name))].filter(
        (name) => !LIMITED.includes(name) && !/renew|expire|acquire/.test(name),
      ),
    ).toEqual([]);
  });

  it('touches what it returns', () => {
    for (const { name, plan, analyzed } of database.explained) {
      if (!analyzed) continue;
      const blocks = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
      const rows = Math.max(...nodesOf(plan).map((node) => node['Actual Rows'] ?? 0));
      expect({ name, excess: Math.max(0, blocks - rows * BLOCKS_PER_ROW - BLOCKS_PER_STATEMENT) }).toEqual({
        name,
        excess: 0,
      });
    }
  });
});
