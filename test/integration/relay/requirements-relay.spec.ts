import { eachRole } from '../../support/each-role.js';
import { systemClock } from '../../../lib/time/clock.js';
import { PUBLISHED, type PublishResult } from '../../../lib/transports/transport.js';
import type { OutboxStore } from '../../../lib/store/outbox-store.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { createHarness, newMessage, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const text = (value: string | number) => Buffer.from(String(value));
const HOUR = 3_600_000;
/** No publish that the test holds back is given up meanwhile. */
const PATIENT = { lease: '30m', publishTimeout: '10m' } as const;
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe.each(DATABASES)('the work of a relay on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    it('begins at once, sees nothing in an empty outbox, and stops at once', async () => {
      harness = await createHarness(kind);
      const transport = new ScriptedTransport();
      // Who waited for a poll, or for the time that a stop has at most, would wait for longer than this test.
      const idle = harness.relay({ default: transport }, { pollInterval: HOUR, shutdownTimeout: HOUR });
      for (let i = 0; i < 100; i += 1)
        expect(await idle.dispatcher.runOnce()).toEqual({ published: 0, retried: 0, dead: 0 });
      expect(idle.hooks.of('error')).toEqual([]);
      await harness.enqueue([{}]);
      await idle.dispatcher.start();
      await transport.until(() => transport.published.length === 1);
      for (let i = 0; i < 5; i += 1) {
        await until(() => idle.dispatcher.status().transports[0]?.buckets.length === 32);
        await idle.dispatcher.stop();
        await idle.dispatcher.start();
      }
    });

    it('drains a backlog without a pause, in few statements', async () => {
      harness = await createHarness(kind, { batchSize: 100 });
      const transport = new ScriptedTransport();
      const calls: Record<string, number> = {};
      const counted = { wrapStore: (store: OutboxStore) => eachRole(store, (role) => countCalls(role, calls)) };
      const { dispatcher } = harness.relay({ default: transport }, { pollInterval: HOUR }, counted);
      const total = 5_000;
      await harness.enqueue(Array.from({ length: total }, (_, i) => ({ key: `k${i % 500}`, payload: text(i) })));
      await dispatcher.start();
      await transport.until(() => transport.published.length === total, 120_000);
      await until(async () => (await harness.count('ready')) === 0);
      const reads = (calls['fetch'] ?? 0) + (calls['sweep'] ?? 0) + (calls['readPlaces'] ?? 0);
      expect((100 * (calls['settle'] as number)) / total).toBeLessThan(5); // statements per 100 messages
      expect((100 * reads) / total).toBeLessThan(10);
    });

    it('stops under load: nothing lost, nothing twice, no lease left', async () => {
      harness = await createHarness(kind, { batchSize: 20 });
      const total = 600;
      await harness.enqueue(Array.from({ length: total }, (_, i) => ({ key: `k${i % 50}`, payload: text(i) })));
      const seen: string[] = [];
      for (let relay = 0; relay < 3; relay += 1) {
        const transport = new ScriptedTransport();
        transport.behave = () => new Promise((resolve) => setTimeout(resolve, 1, PUBLISHED));
        const { dispatcher } = harness.relay({ default: transport });
        await dispatcher.start();
        await transport.until(() => transport.published.length >= 150);
        await dispatcher.stop();
        expect(transport.attempted).toHaveLength(transport.published.length);
        seen.push(...transport.texts);
        const [{ n }] = await harness.dataSource.query(
          'select count(*) as n from outbox_leases where owner is not null',
        );
        expect(Number(n)).toBe(0);
        expect((await harness.count('ready')) + seen.length).toBe(total);
      }
      const rest = new ScriptedTransport();
      await harness.relay({ default: rest }).dispatcher.drain({ timeout: 60_000 });
      expect([...seen, ...rest.texts].map(Number).sort((a, b) => a - b)).toEqual(
        Array.from({ length: total }, (_, i) => i),
      );
    });

    it('lets a key that takes long, or for ever, hold up nobody', async () => {
      harness = await createHarness(kind, { ...PATIENT, batchSize: 10, batchesInFlight: 2 });
      const transport = new ScriptedTransport();
      let finish: (result: PublishResult) => void = () => undefined;
      const slow = new Promise<PublishResult>((resolve) => (finish = resolve));
      transport.behave = ({ key }) => (key === 'slow' ? slow : PUBLISHED);
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      await harness.enqueue(Array.from({ length: 200 }, (_, i) => ({ key: i % 10 === 0 ? 'slow' : `k${i}` })));
      dispatcher.nudge();
      await transport.until(() => transport.published.length === 180);
      await harness.enqueue([{ key: 'new' }]);
      dispatcher.nudge();
      await transport.until(() => transport.published.length === 181);
      finish(PUBLISHED);
      await transport.until(() => transport.published.length === 201);
    });

    it('keeps no more messages and bytes on their way than allowed, and forgets all of them', async () => {
      const limits = { batchSize: 5, batchesInFlight: 2, batchBytes: 1_024 };
      harness = await createHarness(kind, { ...limits, retry: { initial: 1, max: 2, maxAttempts: 3 } });
      const transport = new ScriptedTransport();
      let open = 0;
      let bytes = 0;
      let most = [0, 0];
      transport.behave = async ({ size }) => {
        most = [Math.max(most[0] as number, ++open), Math.max(most[1] as number, (bytes += size))];
        await new Promise((resolve) => setImmediate(resolve));
        open -= 1;
        bytes -= size;
        return rejected();
      };
      await harness.enqueue(
        Array.from({ length: 200 }, (_, i) => ({ key: i % 2 ? `k${i % 40}` : null, payload: Buffer.alloc(400) })),
      );
      const { dispatcher, hooks } = harness.relay(
        { default: transport },
        { retry: { ...harness.options.retry, onDead: 'skip' } },
      );
      await dispatcher.start();
      await hooks.until('dead', 200, 120_000);
      expect(transport.attempted).toHaveLength(600);
      expect(most[0]).toBeLessThanOrEqual(10);
      expect(most[1]).toBeLessThanOrEqual(2 * (1_024 + 400));
      await until(() => dispatcher.status().transports[0]?.blockedKeys === 0); // it learns so from its next look
      expect(dispatcher.status().transports[0]).toMatchObject({ buffered: 0, inFlight: 0 });
    });

    it('survives a transport that throws, never answers, or answers when nobody listens any more', async () => {
      harness = await createHarness(kind, { publishTimeout: 300 });
      const transport = new ScriptedTransport();
      const publish = transport.publish.bind(transport);
      let calls = 0;
      let answerLate: (result: PublishResult) => void = () => undefined;
      transport.behave = () => (calls === 2 ? new Promise((resolve) => (answerLate = resolve)) : PUBLISHED);
      transport.publish = (batch, context) => {
        calls += 1;
        if (calls === 1) throw new Error('at once');
        if (calls === 3) answerLate(PUBLISHED);
        return publish(batch, context);
      };
      const [id] = await harness.enqueue([{ key: 'k', payload: text(1) }]);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await hooks.until('circuitOpened', 2);
      expect(hooks.of('circuitOpened').map(({ error }) => error)).toEqual([
        'at once',
        expect.stringContaining('did not finish within 300 ms'),
      ]);
      expect(await hooks.until('published')).toMatchObject({ ids: [id] });
      await until(async () => (await harness.count('ready')) === 0);
      expect(hooks.of('published')).toHaveLength(1);
      expect(hooks.of('retried')).toEqual([]);
      expect(transport.resets).toBeGreaterThanOrEqual(2);
    });

    it('keeps the order past 2^53', async () => {
      harness = await createHarness(kind);
      const start = '9007199254740990';
      await harness.dataSource.query(
        kind === 'postgres'
          ? `alter sequence outbox_ready_seq_seq restart with ${start}`
          : `alter table outbox_ready auto_increment = ${start}`,
      );
      const transport = new ScriptedTransport();
      transport.behave = ({ payload, attempts }) =>
        String(payload) === '4' && attempts === 0 ? rejected() : PUBLISHED;
      await harness.enqueue(Array.from({ length: 10 }, (_, i) => ({ key: 'k', payload: text(i) })));
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      await transport.until(() => transport.published.length === 10);
      expect(transport.texts.map(Number)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      expect(BigInt((transport.published[9] as { seq: string }).seq)).toBeGreaterThan(2n ** 53n);
    });

    it('E1: needs two connections, and none of the application’s', async () => {
      harness = await createHarness(kind, { database: { poolSize: 2 } });
      const transport = new ScriptedTransport();
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      const ids = (
        await Promise.all(Array.from({ length: 40 }, (_, i) => harness.enqueue([{ key: `k${i}` }, { delay: 50 }])))
      ).flat();
      await transport.until(() => transport.published.length === ids.length);
      await harness.store.admin.stats();
      expect(hooks.of('error')).toEqual([]);
    });

    it('has no transaction open while it publishes', async () => {
      harness = await createHarness(kind, PATIENT);
      const transport = new ScriptedTransport();
      let finish: (result: PublishResult) => void = () => undefined;
      transport.behave = () => new Promise((resolve) => (finish = resolve));
      const { dispatcher } = harness.relay({ default: transport });
      await harness.enqueue([{}]);
      await dispatcher.start();
      await until(() => transport.attempted.length === 1);
      // A statement of a loop may be running at any one moment; a transaction that stays would be in every sample.
      let stays = await openTransactions(harness);
      await until(
        async () => {
          const now = await openTransactions(harness);
          stays = stays.filter((each) => now.includes(each));
          return stays.length === 0;
        },
        60_000,
        150, // the server renews what it shows only when nobody looked for so long
      );
      finish(PUBLISHED);
      await transport.until(() => transport.published.length === 1);
    });

    it('B3: believes the database’s clock, whatever those of the machines say', async () => {
      harness = await createHarness(kind, {
        pollInterval: 20,
        retry: { initial: 300, max: 300 },
      });
      const skewed = (by: number) => ({
        clock: { ...systemClock, wall: () => Date.now() + by },
        random: () => 0.999_999,
      });
      const attemptedAt = new Map<string, number[]>();
      const transports = [3_600_000, -3_600_000].map((by) => {
        const transport = new ScriptedTransport();
        transport.behave = ({ id }) => {
          const times = attemptedAt.get(id) ?? [];
          attemptedAt.set(id, [...times, performance.now()]);
          return times.length === 0 ? rejected() : PUBLISHED;
        };
        return { transport, ...harness.relay({ default: transport }, {}, skewed(by)) };
      });
      for (const { dispatcher } of transports) await dispatcher.start();
      await until(() => {
        for (const { dispatcher } of transports) dispatcher.lookAtLeases(); // peers, and not only in its time
        return transports.every(({ dispatcher }) => dispatcher.status().transports[0]?.buckets.length === 16);
      });
      const enqueuedAt = performance.now();
      const ids = await harness.enqueue(
        Array.from({ length: 64 }, (_, i) => ({ bucket: i % 32, delay: i < 32 ? 2_000 : null })),
      );
      await until(() => transports.reduce((sum, { transport }) => sum + transport.published.length, 0) === 64);
      expect(attemptedAt.size).toBe(64);
      for (const times of attemptedAt.values()) {
        expect(times).toHaveLength(2);
        expect((times[1] as number) - (times[0] as number)).toBeGreaterThan(280);
      }
      // Never earlier; and who believed a machine would be wrong by an hour.
      for (const id of ids.slice(0, 32))
        expect((attemptedAt.get(id)?.[0] as number) - enqueuedAt).toBeGreaterThan(1_900);
    });

    it('reads times right from a session in any time zone', async () => {
      harness = await createHarness(kind);
      const transport = new ScriptedTransport();
      const { dispatcher } = harness.relay({ default: transport });
      const runner = harness.dataSource.createQueryRunner();
      await runner.query(kind === 'postgres' ? `set time zone 'Asia/Kathmandu'` : `set time_zone = '+05:45'`);
      await dispatcher.start();
      await harness.enqueue([{ payload: text('first') }]);
      await transport.until(() => transport.published.length === 1); // connected, and every bucket is read
      await runner.startTransaction();
      const soon = new Date(Date.now() + 2_000);
      const rows = [newMessage({ payload: text('now') }), newMessage({ payload: text('then'), deliverAt: soon })];
      await harness.store.writer.insert(transactionExecutor(runner), rows);
      await runner.commitTransaction();
      await runner.query(kind === 'postgres' ? 'reset time zone' : 'set time_zone = default');
      await runner.release();
      // An error is a quarter of an hour or more: too early, or never.
      await transport.until(() => transport.texts.includes('then'), 60_000);
      expect(Date.now()).toBeGreaterThan(soon.getTime() - 1_000);
      await transport.until(() => transport.published.length === 3);
      expect([...transport.texts].sort()).toEqual(['first', 'now', 'then']);
      for (const { createdAt } of transport.published)
        expect(Math.abs(Date.now() - createdAt.getTime())).toBeLessThan(600_000); // clock: an error is a quarter of an hour or more
    });
  });
});

async function openTransactions({ database, dataSource }: Harness): Promise<string[]> {
  const rows = (await dataSource.query(
    database.kind === 'postgres'
      ? `select pid || ' ' || xact_start as t from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null`
      : `select concat(trx_mysql_thread_id, ' ', trx_id) as t from information_schema.innodb_trx
         join information_schema.processlist on id = trx_mysql_thread_id where db = database()`,
  )) as { t: string }[];
  return rows.map(({ t }) => t);
}

function countCalls<T extends object>(part: T, calls: Record<string, number>): T {
  return new Proxy(part, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]): unknown => {
        calls[String(name)] = (calls[String(name)] ?? 0) + 1;
        return value.apply(target, given);
      };
    },
  });
}
