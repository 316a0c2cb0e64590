import { randomUUID } from 'node:crypto';
import { OpenTransaction, waitsForLock } from '../support/open-transactions.js';
import { createHarness, type Harness } from '../support/relay.js';
import { describeWith, DATABASES } from '../support/services.js';
import { until } from '../support/until.js';

describe.each(DATABASES)('%s: leases that change while they are waited for', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(async () => {
      await OpenTransaction.endAll();
      await harness.close();
    });

    /** In between an operator was told that nobody is publishing, and changed what its owner still has in memory. */
    it('one that runs out while its renewal waits for it is lost', async () => {
      harness = await createHarness(kind, { buckets: 2 });
      const owner = randomUUID();
      await harness.store.acquire({ owner, leaseMs: 700, transport: 0, limit: 2 });
      const operator = await OpenTransaction.begin(harness);
      await operator.query(
        `select 1 from outbox_leases where bucket = 0 ${kind === 'postgres' ? 'for share' : 'lock in share mode'}`,
      );
      const renewed = harness.store.renew(owner, 60_000);
      expect(await waitsForLock(harness, renewed)).toBe(true);
      const clock = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
      const over = `select 1 from outbox_leases where bucket = 0 and expires_at <= ${clock}`;
      await until(async () => ((await harness.dataSource.query(over)) as unknown[]).length > 0);
      await operator.commit();
      expect((await renewed).map(({ bucket }) => bucket)).not.toContain(0);
    });
  });
});
