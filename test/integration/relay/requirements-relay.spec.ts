import type { PublishResult, OutboxStore } from '../../../lib/index.js';
import { eachRole } from '../../support/each-role.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
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

    it('E1: needs none of the application’s connections', async () => {
      harness = await createHarness(kind);
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
