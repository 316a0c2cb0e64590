import { openStore } from '../../support/open-store.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';
import { until } from '../../support/until.js';

describeOnEach([], 'a ready row that somebody holds locked', (kind) => {
  let h: Harness;
  afterEach(() => h.close());

  it('keeps nothing but itself from being settled, and is settled when it is free', async () => {
    h = await createHarness(kind, { batchSize: 10, batchesInFlight: 1, lease: '10m' });
    await h.enqueue(Array.from({ length: 60 }, () => ({})));
    const [{ bucket, seq }] = await h.dataSource.query('select bucket, seq from outbox_ready limit 1');
    const holder = h.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query(
      `select 1 from outbox_ready where transport = 0 and bucket = ${bucket} and seq = ${seq} for update`,
    );
    const transport = new ScriptedTransport();
    const { database: options, ordering, coordination, onPublished, buckets } = h.options;
    // On PostgreSQL a write waits for a lock as long as a statement may take; twice, until the one that is locked is known.
    const limit = kind === 'postgres' ? { statementTimeout: 3_000 } : {};
    const store = openStore(h.dataSource, { options, ordering, coordination, onPublished, buckets, ...limit });
    const { dispatcher } = h.relay({ default: transport }, {}, { wrapStore: () => store });
    await dispatcher.start();
    try {
      await until(async () => (await h.count('ready')) === 1, 120_000);
      expect(transport.published).toHaveLength(60);
      await holder.rollbackTransaction();
      await until(async () => (await h.count('ready')) === 0);
      expect(transport.attempted).toHaveLength(60);
    } finally {
      await holder.release();
      await dispatcher.stop();
      await store.close();
    }
  });
});
