import type { TestingModule } from '@nestjs/testing';
import type { DataSource } from 'typeorm';
import {
  OutboxAdmin,
  OutboxCleaner,
  OutboxDispatcher,
  OutboxPartitionMaintainer,
  OutboxService,
  OutboxUnlocker,
} from '../../lib/index.js';
import type { RecordingTransport } from '../../lib/testing/index.js';
import { countedHealth } from '../nest/support/app.js';
import { plainBlocks, runOn } from '../readme/sql.js';
import type { TestDatabase } from '../support/databases.js';
import { describeWith, DATABASES } from '../support/services.js';
import { until } from '../support/until.js';
import { Logins } from './logins.js';

/** In an order that no reference stands against. */
const TABLES_DROPPED = [
  'parked',
  'ready',
  'archive',
  'dedup',
  'leases',
  'instances',
  'meta',
  'transports',
  'audit',
  'pauses',
];
const TABLES = ['ready', 'parked', 'archive', 'dedup', 'leases', 'instances', 'meta', 'transports', 'audit', 'pauses'];

describe.each(DATABASES)('rights on %s', (kind) => {
  describeWith(kind, 'as they are documented', () => {
    const logins = new Logins(kind, { retry: { initial: 1, max: 1, maxAttempts: 2 } });
    let [database, admin, transport] = [] as unknown as [TestDatabase, DataSource, RecordingTransport];
    beforeEach(async () => {
      await logins.begin();
      ({ database, admin, transport } = logins);
      await (await start(database.options, { relay: 'manual', database: { setup: 'create' } })).close();
      await admin.query('create table secrets (a int)');
    });
    afterEach(() => logins.end());
    const start = (...given: Parameters<Logins['start']>) => logins.start(...given);
    const as = (...documented: string[]) => logins.as(documented);
    const allowed = (...given: Parameters<Logins['allowed']>) => logins.allowed(...given);
    const relay = async (): Promise<TestingModule> =>
      start(await as('shop_relay'), { relay: 'manual', onPublished: 'archive' });

    const ownConnections = async (): Promise<number> => {
      const sql = `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'nestjs-outbox'`;
      return ((await admin.query(sql)) as { n: number }[])[0]?.n as number;
    };
    const writes = (tables: readonly string[]): string[] =>
      tables.flatMap((table) => [`delete from outbox_${table}`, `update outbox_${table} set ${COLUMN[table]} = null`]);
    const secrets = ['payload', 'headers', 'options'].flatMap((column) =>
      ['ready', 'parked', 'archive', 'messages'].map((table) => `select ${column} from outbox_${table}`),
    );
    /** By which one row stops what others publish: numbers at the end, the mark that holds a key. */
    const columns = [
      ['ready', 'seq', '9223372036854775807'],
      ['ready', 'created_at', 'null'],
      ['parked', 'seq', '9223372036854775807'],
      ['parked', 'blocking', kind === 'postgres' ? 'true' : '1'],
      ...(kind === 'postgres'
        ? [
            ['ready', 'tx', 'null'],
            ['ready', 'async_commit', 'true'],
          ]
        : []),
    ].map(([table, column, value]) => `insert into outbox_${table} (topic, ${column}) values ('t', ${value})`);
    const never = [
      'select * from secrets',
      'drop table outbox_ready',
      'create table mine (a int)',
      'truncate outbox_ready',
    ];

    it('I4: let an application enqueue, count, and nothing else', async () => {
      const user = await as('shop_api');
      const outbox = (await start(user, { relay: false })).get(OutboxService);
      const [plain, own, later] = await outbox.transaction(async () => [
        await outbox.enqueue({ type: 'plain', key: 'k', payload: 1, headers: { h: 'v' } }),
        await outbox.enqueue({ type: 'once', key: 'k', payload: 2 }, { dedupKey: 'a' }),
        await outbox.enqueue({ type: 'later', payload: 3 }, { delay: 1 }),
      ]);
      const again = outbox.transaction(() => outbox.enqueue({ type: 'once', payload: 2 }, { dedupKey: 'a' }));
      expect(await again).toBe(own);
      const many = Array.from({ length: 20 }, (_, i) => ({ type: `many-${i}`, key: `k-${i}`, payload: i }));
      await outbox.enqueueOutsideTransaction([...many, { type: 'own', payload: 0, dedupKey: 'b' }]);
      expect((await outbox.stats()).total).toMatchObject({ ready: 23, scheduled: 1 });
      expect(await countedHealth(outbox)).toMatchObject({ reasons: [{ code: 'no_relay' }] });
      if (kind === 'postgres') await until(async () => (await ownConnections()) === 2); // one of them wakes relays
      expect(
        await allowed(user, [
          ...secrets,
          ...never,
          // On MariaDB the right to claim a dedup key is one to change it.
          ...writes(TABLES.filter((table) => kind === 'postgres' || table !== 'dedup')),
          'delete from outbox_dedup',
          'select * from outbox_ready',
          'select last_error from outbox_parked',
          'select id from outbox_archive',
          `insert into outbox_leases (transport, bucket) values (9, 9)`,
          `insert into outbox_meta (name, value) values ('a', 'b')`,
          ...columns,
        ]),
      ).toEqual([]);
      await (await relay()).get(OutboxDispatcher).drain();
      expect(transport.published.map(({ id }) => id)).toEqual(expect.arrayContaining([plain, own, later]));
      expect(transport.published).toHaveLength(24);
    });

    it('let a relay do its work on its tables, and nothing with others', async () => {
      const app = await relay();
      const outbox = app.get(OutboxService);
      await app.get(OutboxAdmin).release('nobody');
      await app.get(OutboxCleaner).runOnce();
      transport.fail({ when: ({ type }) => type === 'bad' });
      await outbox.enqueueOutsideTransaction(['good', 'bad', 'good'].map((type) => ({ type, key: type, payload: 1 })));
      await app.get(OutboxDispatcher).drain();
      await app.get(OutboxUnlocker).runOnce();
      await outbox.requeue({ type: 'bad' });
      await app.get(OutboxDispatcher).drain();
      expect(await app.get(OutboxAdmin).replay({ publishedFrom: new Date(0) })).toMatchObject({ done: 2 });
      await app.get(OutboxDispatcher).drain();
      expect((await outbox.stats()).total).toMatchObject({ ready: 0, dead: 1 });
      expect(await app.get(OutboxCleaner).runOnce({ before: new Date(), includeDead: true })).toMatchObject({
        published: 4,
        dead: 1,
      });
      const user = logins.optionsOf(logins.users[0]!);
      expect(await allowed(user, never)).toEqual([]);
    });

    it('S3: let operators act on what waits without reading it', async () => {
      const setUp = await relay();
      transport.fail({ final: true, when: ({ type }) => type === 'dead' });
      transport.fail({ when: ({ type }) => type === 'later' });
      const waiting: readonly [type: string, key: string][] = [
        ['dead', 'a'],
        ['after', 'a'],
        ['dead', 'b'],
        ['later', 'c'],
      ];
      await setUp
        .get(OutboxService)
        .enqueueOutsideTransaction(waiting.map(([type, key]) => ({ type, topic: type, key, payload: 1 })));
      const enqueueDue = () =>
        setUp
          .get(OutboxService)
          .enqueueOutsideTransaction({ type: 'due', payload: 1 }, { delay: '1h', dedupKey: 'due' });
      const due = await enqueueDue();
      await setUp.get(OutboxDispatcher).drain();
      const user = await as('shop_operator');
      const operator = await start(user, { relay: false });
      const [outbox, actions] = [operator.get(OutboxService), operator.get(OutboxAdmin)];
      expect((await outbox.stats()).total).toMatchObject({ dead: 3, blocked: 1, scheduled: 1 });
      await setUp.get(OutboxService).enqueueOutsideTransaction({ type: 'now', payload: 1 });
      await setUp.get(OutboxService).enqueueOutsideTransaction({ type: 'then', payload: 1 }, { delay: '1h' });
      expect(await actions.cancel({ type: 'now', youngerThan: '1h' })).toMatchObject({ done: 1, outcome: 'done' });
      expect(await actions.cancel({ type: 'then' })).toMatchObject({ done: 1, outcome: 'done' });
      const group = { transport: 'default', type: 'none', topic: 'none', error: 'none' };
      expect(await actions.requeue({ group })).toMatchObject({ done: 0, outcome: 'done' });
      expect(await actions.release('nobody')).toMatchObject({ released: 0 });
      expect(await actions.pause({ transport: 'default', reason: 'tried' })).toMatchObject({ changed: true });
      expect(await actions.pauses()).toMatchObject([{ reason: 'tried' }]);
      expect(await actions.resume({ transport: 'default' })).toMatchObject({ changed: true });
      expect((await actions.audit()).entries).toHaveLength(6);
      expect((await outbox.cancel({ ids: [due] })).changed).toEqual([due]);
      expect(await enqueueDue()).not.toBe(due);
      const ready = await setUp.get(OutboxService).enqueueOutsideTransaction({ type: 'ready', payload: 1 });
      expect((await outbox.cancel({ ids: [ready], type: 'ready' })).changed).toEqual([ready]);
      expect((await outbox.requeue({ topic: 'later' })).done).toBe(1);
      expect(await outbox.release('a')).toMatchObject({ released: 1 });
      const [{ id } = { id: '' }] = (await actions.find({ type: 'dead', key: 'a', state: 'dead' })).messages;
      expect(await outbox.discard({ type: 'dead', key: 'a' })).toMatchObject({ done: 1 });
      expect(await outbox.discard({ ids: [id] })).toMatchObject({ notFound: [id] });
      expect((await outbox.discard({ type: 'dead' })).done).toBe(1);
      await setUp.get(OutboxDispatcher).drain();
      expect(transport.published.map(({ type }) => type)).toEqual(['after']);
      const far = kind === 'postgres' ? `now() + interval '1 day'` : 'utc_timestamp(6) + interval 1 day';
      await admin.query(`update outbox_leases set owner = 'gone', expires_at = ${far}`);
      expect(await outbox.breakLeases({ owner: 'gone' })).toMatchObject({ owners: ['gone'], left: 0 });
      await setUp.get(OutboxService).enqueueOutsideTransaction({ type: 'at last', payload: 1 });
      await setUp.get(OutboxDispatcher).drain();
      expect(transport.published.map(({ type }) => type)).toEqual(['after', 'at last']);
      const others = TABLES.filter((table) => !['ready', 'parked', 'leases', 'dedup', 'pauses'].includes(table));
      const inserts = ['ready', 'parked'].map((table) => `insert into outbox_${table} (topic) values ('t')`);
      inserts.push(`insert into outbox_dedup (dedup_key, id) values ('k', '${due}')`);
      expect(
        await allowed(user, [
          ...secrets,
          ...never,
          ...writes(others),
          ...inserts,
          `update outbox_pauses set reason = 'another'`,
          `update outbox_parked set payload = null`,
          `update outbox_ready set payload = null`,
        ]),
      ).toEqual([]);
    });

    it('S3: let editors correct and delete for good, which operators cannot', async () => {
      const setUp = await relay();
      transport.fail({ final: true, when: ({ topic }) => topic === 'bad' });
      const messages = ['bad', 'good'].map((topic) => ({
        type: 'a',
        topic,
        key: topic,
        payload: 1,
        headers: { h: 'v' },
      }));
      const [bad = '', good = ''] = await setUp.get(OutboxService).enqueueOutsideTransaction(messages);
      await setUp.get(OutboxDispatcher).drain();
      const operator = await as('shop_operator');
      const actions = (await start(operator, { relay: false })).get(OutboxAdmin);
      await expect(actions.edit(bad, { topic: 'x' })).rejects.toThrow(/denied/);
      await expect(actions.purge({ key: 'good' })).rejects.toThrow(/denied/);
      const old = ['kept', 'kept_payload'].map((column) => `select ${column} from outbox_audit`);
      expect(await allowed(operator, [...secrets, ...old, 'select * from outbox_audit'])).toEqual([]);

      const user = await as('shop_operator', 'shop_editor');
      const editor = (await start(user, { relay: false })).get(OutboxAdmin);
      const revision = (await editor.show(bad, { payload: true })).transports[0]?.revision as string;
      expect(await editor.edit(bad, { topic: 'x', payload: 2 }, { expect: revision, requeue: true })).toMatchObject({
        requeued: true,
      });
      expect((await editor.show(bad)).edits).toMatchObject([{ before: { topic: 'bad' } }]);
      expect(await editor.purge({ ids: [bad, good] })).toMatchObject({ done: 2, versions: 1 });
      await setUp.get(OutboxDispatcher).drain();
      expect(transport.published.map(({ topic }) => topic)).toEqual(['good', 'x']);
      expect(
        await allowed(user, ['delete from outbox_audit', 'update outbox_audit set actor = null', ...never]),
      ).toEqual([]);
    });

    it('let a dashboard see states and errors, and change nothing', async () => {
      const setUp = await relay();
      transport.fail({ final: true, when: ({ type }) => type === 'dead' });
      await setUp.get(OutboxService).enqueueOutsideTransaction(['dead', 'good'].map((type) => ({ type, payload: 1 })));
      await setUp.get(OutboxDispatcher).drain();
      const view = kind === 'postgres' ? 'outbox_messages' : 'outbox_overview';
      await runOn(
        admin,
        plainBlocks(kind).filter(({ text }) => text.includes('outbox_overview')),
      );
      const user = await as('shop_dashboard');
      const dashboard = await logins.connect(user);
      expect(
        await dashboard.query(`select type, state, last_error is null as fine from ${view} order by type`),
      ).toMatchObject([
        { type: 'dead', state: 'dead' },
        { type: 'good', state: 'published' },
      ]);
      const reads = TABLES.map((table) => `select 1 from outbox_${table}`);
      const changes = [`insert into ${view} (topic) values ('t')`, `delete from ${view}`];
      expect(await allowed(user, [...secrets, ...never, ...reads, ...writes(TABLES), ...changes])).toEqual([]);
    });

    it('S4-50: let a maintainer make and drop partitions, while a relay with no such right publishes into them', async () => {
      await admin.query('drop view outbox_messages');
      for (const table of TABLES_DROPPED) await admin.query(`drop table if exists outbox_${table}`);
      const inPartitions = { relay: 'manual', database: { setup: 'create' }, partitions: { period: 'day' } } as const;
      await (await start(database.options, inPartitions)).close();
      const user = await as('shop_partitions');
      const maintainer = (
        await start(user, { relay: false, database: { setup: 'none' }, partitions: { period: 'day' } })
      ).get(OutboxPartitionMaintainer);
      const setUp = await relay();
      await setUp.get(OutboxService).enqueueOutsideTransaction({ type: 'early', payload: 1 });
      await setUp.get(OutboxDispatcher).drain();
      const far = kind === 'postgres' ? `now() - interval '5 d'` : 'utc_timestamp(6) - interval 5 day';
      await admin.query(`update outbox_archive set published_at = ${far} where type = 'early'`);
      expect(await maintainer.runOnce({ retention: '10d' })).toMatchObject({ outcome: 'done', moved: 1, notDone: [] });
      expect((await maintainer.status()).isCovered).toBe(true);
      await setUp.get(OutboxService).enqueueOutsideTransaction({ type: 'later', payload: 1 });
      await setUp.get(OutboxDispatcher).drain();
      const report = await maintainer.runOnce({ retention: '3d' });
      expect(report).toMatchObject({ outcome: 'done', notDone: [] });
      expect(report.dropped.length).toBeGreaterThan(0);
      expect(await admin.query('select type from outbox_archive')).toEqual([{ type: 'later' }]);
      const others = TABLES.filter((table) => table !== 'archive');
      const reads = others.filter((table) => !['meta', 'transports'].includes(table));
      const mine = ['select * from secrets', 'drop table outbox_ready', 'truncate outbox_ready'];
      const looks = reads.map((table) => `select 1 from outbox_${table}`);
      expect(await allowed(user, [...mine, ...looks, ...writes(others)])).toEqual([]);
      const relayUser = logins.optionsOf(logins.users[1]!);
      expect(await allowed(relayUser, [...never, 'drop table outbox_archive'])).toEqual([]);
      // The embedded maintainer of a relay with these rights says so, and changes nothing.
      const embedded = setUp.get(OutboxPartitionMaintainer);
      const refused = kind === 'postgres' ? /must be owner|permission denied/ : /denied/;
      const failed = await embedded.runOnce({ period: 'day', lookahead: '40d' }).catch((error: unknown) => error);
      expect(String((failed as { errors?: unknown }).errors ?? failed)).toMatch(refused);
    });

    it('I4: let a program insert with plain SQL, and not look', async () => {
      const app = await start(database.options, { relay: 'manual' });
      const user = await as('shop_writer');
      const writer = await logins.connect(user);
      const into = kind === 'postgres' ? 'outbox_messages' : 'outbox_ready';
      const name = kind === 'postgres' ? `'default'` : `(select id from outbox_transports where name = 'default')`;
      const key = kind === 'postgres' ? 'key' : '`key`';
      await writer.query(`insert into ${into} (topic, ${key}, payload, transport) values ('t', 'k', '1', ${name})`);
      if (kind === 'postgres')
        await writer.query(`insert into outbox_messages (topic, payload, due_at) values ('t', '2', now())`);
      await app.get(OutboxDispatcher).drain();
      expect(transport.published.map(({ payload }) => String(payload)).sort()).toEqual(
        kind === 'postgres' ? ['1', '2'] : ['1'],
      );
      const reads = TABLES.filter((table) => table !== 'transports').map((table) => `select * from outbox_${table}`);
      expect(await allowed(user, [...secrets, ...never, ...reads, ...writes(TABLES), ...columns])).toEqual([]);
    });
  });
});

/** One that can be set, of each table. */
const COLUMN: Record<string, string> = {
  ready: 'payload',
  parked: 'state',
  archive: 'payload',
  dedup: 'id',
  leases: 'owner',
  instances: 'info',
  meta: 'value',
  transports: 'name',
  audit: 'actor',
  pauses: 'reason',
};
