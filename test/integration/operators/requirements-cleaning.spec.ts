import { OutboxUnlocker } from '../../../lib/relay/leases/unlocker.js';
import { OutboxCleaner } from '../../../lib/clean/cleaner.js';
import { series } from '../../support/databases.js';
import { createHarness, RecordedHooks, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

describe.each(DATABASES)('cleaning and unlocking on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    const RETENTION = { published: 1_000, dead: 1_000, dedup: 60_000, audit: 3_600_000, every: 1_000, pause: 0 };
    const past = (): string =>
      kind === 'postgres' ? `clock_timestamp() - interval '10 days'` : 'utc_timestamp(6) - interval 10 day';

    /** Published long ago, as many as that. */
    async function archived(count: number): Promise<void> {
      const numbers =
        kind === 'postgres' ? `generate_series(1, ${count}) s(n)` : `(select seq as n from ${series(kind, count)}) s`;
      const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
      await harness.dataSource.query(
        `insert into outbox_archive (transport, bucket, seq, id, topic, type, published_at) select 0, 0, n, ${id}, 't', 't', ${past()} from ${numbers}`,
      );
    }

    it('does not delay the relay while it waits', async () => {
      harness = await createHarness(kind);
      await archived(10);
      const runner = harness.dataSource.createQueryRunner();
      await runner.startTransaction();
      const lock = 'lock table outbox_archive in access exclusive mode';
      await runner.query(kind === 'postgres' ? lock : 'select id from outbox_archive for update');
      const transport = new ScriptedTransport();
      const { dispatcher, store } = harness.relay({ default: transport });
      await dispatcher.start();
      let done = false;
      const cleaner = new OutboxCleaner(store, new RecordedHooks(), RETENTION, false);
      const cleaned = cleaner.runOnce().finally(() => (done = true));
      // Rows that somebody holds are passed by; a table that somebody holds is waited for.
      if (kind !== 'postgres') expect(await cleaned).toMatchObject({ published: 0 });
      for (let i = 1; i <= 4; i += 1) {
        await harness.enqueue([{ key: 'k' }]);
        dispatcher.nudge();
        await transport.until(() => transport.published.length === i);
      }
      expect(done).toBe(kind !== 'postgres');
      await runner.rollbackTransaction();
      await runner.release();
      expect(await (kind !== 'postgres' ? cleaner.runOnce() : cleaned)).toMatchObject({ published: 10 });
    });

    it('B5: frees and reports what an instance left behind, once, and nothing that still lasts', async () => {
      harness = await createHarness(kind);
      const lease = (owner: string, leaseMs: number, limit: number) =>
        harness.store.leases.acquire({ owner, leaseMs, transport: 0, limit });
      const beat = (owner: string, ms: number) => harness.store.leases.beat({ owner, transports: [0], info: '' }, ms);
      await lease('alive', 3_600_000, 7);
      await beat('alive', 3_600_000);
      await beat('gone', 1);
      await lease('gone', 1, 5);
      const hooks = new RecordedHooks();
      const now = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
      const lasting = `select 1 from outbox_leases where owner = 'gone' and expires_at > ${now}`;
      await until(async () => (await harness.dataSource.query(lasting)).length === 0);
      const unlocker = new OutboxUnlocker(harness.store.leases, hooks);
      expect(await unlocker.runOnce()).toEqual({ expired: 5 });
      expect(hooks.of('leasesExpired')).toEqual([{ owner: 'gone', buckets: 5 }]);
      expect(await unlocker.runOnce()).toEqual({ expired: 0 });
      const instances = await harness.dataSource.query('select owner from outbox_instances');
      expect(instances.map(({ owner }: { owner: unknown }) => String(owner))).toEqual(['alive']);
      expect(await lease('next', 60_000, 100)).toHaveLength(25);
    });
  });
});
