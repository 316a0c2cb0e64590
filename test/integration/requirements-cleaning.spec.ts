import { OutboxUnlocker } from '../../lib/claim/unlocker.js';
import { OutboxCleaner } from '../../lib/clean/cleaner.js';
import type { PublishResult } from '../../lib/publish/transport.js';
import { refuse } from '../support/refusing-database.js';
import { createHarness, RecordedHooks, ScriptedTransport, type Harness } from '../support/relay.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe.each(['postgres', 'mariadb'] as const)('cleaning and unlocking on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    const RETENTION = { published: 1_000, dead: 1_000, dedup: 60_000, every: 1_000 };
    const cleaner = (hooks = new RecordedHooks()): OutboxCleaner =>
      new OutboxCleaner(harness.store, hooks, RETENTION, false);
    const past = (): string =>
      kind === 'postgres' ? `clock_timestamp() - interval '10 days'` : 'utc_timestamp(6) - interval 10 day';

    /** Published long ago, as many as that. */
    async function archived(count: number): Promise<void> {
      const numbers =
        kind === 'postgres' ? `generate_series(1, ${count}) s(n)` : `(select seq as n from seq_1_to_${count}) s`;
      const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
      await harness.dataSource.query(
        `insert into outbox_archive (transport, bucket, seq, id, topic, type, published_at) select 0, 0, n, ${id}, 't', 't', ${past()} from ${numbers}`,
      );
    }
    async function pendingAndDead(): Promise<void> {
      const transport = new ScriptedTransport();
      transport.behave = ({ key }) => ({ ...(rejected() as object), final: key === 'dead' }) as PublishResult;
      await harness.enqueue([{ key: 'waiting' }, { key: 'waiting' }, { key: 'dead' }, { delay: 3_600_000 }]);
      await harness
        .relay({ default: transport }, { retry: { ...harness.options.retry, onDead: 'skip' } })
        .dispatcher.drain();
      await harness.enqueue([{ key: 'ready' }]);
      await harness.dataSource.query(`update outbox_parked set created_at = ${past()}, parked_at = ${past()}`);
      await harness.dataSource.query(`update outbox_parked set died_at = ${past()} where died_at is not null`);
      await harness.dataSource.query(`update outbox_ready set created_at = ${past()}`);
    }

    it('removes all that is final and old in one run, nothing that waits, and two runs count each row once', async () => {
      harness = await createHarness(kind, { retry: { initial: '1h', max: '1h' } });
      await pendingAndDead();
      await archived(2_500);
      const reports = await Promise.all([cleaner().runOnce(), cleaner().runOnce()]);
      const sum = reports.reduce((a, b) => ({
        published: a.published + b.published,
        dead: a.dead + b.dead,
        dedup: a.dedup + b.dedup,
      }));
      expect(sum).toEqual({ published: 2_500, dead: 1, dedup: 0 });
      const left = await harness.dataSource.query('select state from outbox_messages order by state');
      expect(left.map(({ state }: { state: string }) => state)).toEqual(['blocked', 'ready', 'scheduled', 'waiting']);
    });

    it('counts what it removed although another part failed, and goes on with the rest', async () => {
      harness = await createHarness(kind, { retry: { initial: '1h', max: '1h' } });
      await pendingAndDead();
      await archived(1_200);
      await refuse(harness, 'delete', 'outbox_parked');
      const hooks = new RecordedHooks();
      await expect(cleaner(hooks).runOnce()).rejects.toMatchObject({
        report: { published: 1_200, dead: 0, dedup: 0 },
        errors: [expect.objectContaining({ message: expect.stringContaining('not today') })],
      });
      expect(hooks.of('cleaned')).toEqual([{ published: 1_200, dead: 0, dedup: 0 }]);
    });

    it('does not delay the relay while it waits', async () => {
      harness = await createHarness(kind);
      await archived(10);
      const runner = harness.dataSource.createQueryRunner();
      await runner.startTransaction();
      await runner.query('select id from outbox_archive for update');
      const transport = new ScriptedTransport();
      const { dispatcher, store } = harness.relay({ default: transport });
      await dispatcher.start();
      let done = false;
      const cleaned = new OutboxCleaner(store, new RecordedHooks(), RETENTION, false)
        .runOnce()
        .finally(() => (done = true));
      for (let i = 1; i <= 10; i += 1) {
        await harness.enqueue([{ key: 'k' }]);
        dispatcher.nudge();
        await transport.until(() => transport.published.length === i, 2_000);
      }
      const waited = !done;
      await runner.rollbackTransaction();
      await runner.release();
      const { published } = await cleaned;
      // PostgreSQL's cleaner waits for the rows, MariaDB's may pass over them.
      expect(waited ? published : 10).toBe(10);
    });

    it('frees and reports what an instance left behind, once, and nothing that still lasts', async () => {
      harness = await createHarness(kind);
      const lease = (owner: string, leaseMs: number, limit: number) =>
        harness.store.acquire({ owner, leaseMs, transport: 0, limit });
      await lease('gone', 1, 5);
      await lease('alive', 60_000, 7);
      const hooks = new RecordedHooks();
      const unlocker = new OutboxUnlocker(harness.store, hooks);
      await until(async () => (await unlocker.runOnce()).expired === 5);
      expect(hooks.of('leasesExpired')).toEqual([{ owner: 'gone', buckets: 5 }]);
      expect(await unlocker.runOnce()).toEqual({ expired: 0 });
      expect(await lease('next', 60_000, 100)).toHaveLength(25);
    });
  });
});
