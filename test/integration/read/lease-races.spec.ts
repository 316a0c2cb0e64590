import { randomUUID } from 'node:crypto';
import { OpenTransaction, waitsForLock } from '../../support/open-transactions.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

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
      await harness.store.leases.acquire({ owner, leaseMs: 4_000, transport: 0, limit: 2 });
      const operator = await OpenTransaction.begin(harness);
      await operator.query(
        `select crashes from outbox_leases where bucket = 0 ${kind === 'postgres' ? 'for share' : 'lock in share mode'}`,
      );
      const renewed = harness.store.leases.renew(owner, 60_000);
      expect(await waitsForLock(harness, renewed)).toBe(true);
      const clock = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
      const over = `select 1 from outbox_leases where bucket = 0 and expires_at <= ${clock}`;
      await until(async () => ((await harness.dataSource.query(over)) as unknown[]).length > 0);
      await operator.commit();
      expect((await renewed).map(({ bucket }) => bucket)).not.toContain(0);
    });

    /** A statement that names a locked row by the place that it had before does not find it. */
    describe('E16: a row that another session changes at that moment is written all the same', () => {
      const owner = randomUUID();

      /** What `work` answers, which waited for a change of the row of bucket 0, and what is in that row then. */
      const beside = async <T>(work: (leases: readonly Lease[]) => Promise<T>): Promise<[T, LeaseRow]> => {
        harness = await createHarness(kind, { buckets: 2 });
        const leases = await harness.store.leases.acquire({ owner, leaseMs: 30_000, transport: 0, limit: 2 });
        const other = await OpenTransaction.begin(harness);
        await other.query('update outbox_leases set crashes = crashes + 2 where bucket = 0');
        const working = work(leases);
        expect(await waitsForLock(harness, working)).toBe(true);
        await other.commit();
        const answer = await working;
        const [row] = (await harness.dataSource.query(
          'select owner, crashes, trial from outbox_leases where bucket = 0',
        )) as [LeaseRow];
        return [answer, row];
      };
      interface LeaseRow {
        readonly owner: unknown;
        readonly crashes: unknown;
        readonly trial: unknown;
      }

      it('by a renewal', async () => {
        const [renewed] = await beside(() => harness.store.leases.renew(owner, 60_000));
        expect(renewed.map(({ bucket }) => bucket)).toEqual([0, 1]);
      });

      it('when it is given back', async () => {
        const [, row] = await beside((leases) => harness.store.leases.giveBack(owner, leases));
        expect(row.owner).toBeNull();
      });

      it('when it lasted', async () => {
        const [, row] = await beside((leases) => harness.store.leases.renew(owner, 60_000, leases));
        expect(Number(row.crashes)).toBe(0);
      });

      it('when a trial is noted', async () => {
        const [noted, row] = await beside(([lease]) =>
          harness.store.leases.noteTrial(owner, lease as Lease, randomUUID()),
        );
        expect([noted, row.trial]).toEqual([true, expect.anything()]);
      });
    });
  });
});
