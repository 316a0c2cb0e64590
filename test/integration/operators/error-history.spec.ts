// @tier fast
import { randomUUID } from 'node:crypto';
import { openStore } from '../../support/open-store.js';
import { parkEntry, repark } from '../../../lib/testing/store-contract/harness.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

describe.each(DATABASES)('retry.errorHistory on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness.close());

    /** The errors that are kept of one message that fails under these settings, one after the other. */
    async function kept(...histories: number[]): Promise<string[][]> {
      const owner = randomUUID();
      const leases = await harness.store.leases.acquire({ owner, leaseMs: 3_600_000, transport: 0, limit: 1 });
      await harness.enqueue([{ key: null }]);
      const positions = [{ bucket: 0, after: '0' }];
      const { messages } = await harness.store.ready.fetch({ transport: 0, positions, perBucket: 1, limit: 1 });
      await harness.store.ready.park(
        owner,
        leases,
        messages.map((message) => parkEntry(message, { error: null })),
      );
      const seen: string[][] = [];
      for (const [index, errorHistory] of histories.entries()) {
        const { database, ...settings } = harness.options;
        const store = openStore(harness.dataSource, { ...settings, options: database, errorHistory });
        const due = (await store.parked.due(0, [0], 1)).rows;
        const taken = await store.parked.take({ owner, transport: 0, leases, due, keys: [], perKey: 1 });
        const entries = taken.messages.map((message) => repark(message, { error: `no "${index}], [{` }));
        expect((await store.parked.repark(owner, leases, entries)).affected).toBe(1);
        await store.close();
        const [row] = await harness.dataSource.query('select errors from outbox_parked');
        const errors = JSON.parse(row.errors ?? '[]') as { error: string }[];
        seen.push(errors.map(({ error }) => (/\d/.exec(error) as RegExpExecArray)[0]));
        expect(errors.every(({ error }) => /^no "\d\], \[\{$/.test(error))).toBe(true);
      }
      return seen;
    }

    it.each([1, 2, 3, 5])('keeps the last %i from the next failure on when there were six', async (lowered) => {
      harness = await createHarness(kind, { buckets: 1 });
      const before = Array.from({ length: 6 }, () => 6);
      const seen = (await kept(...before, lowered, lowered)).slice(5);
      const all = ['0', '1', '2', '3', '4', '5', '6', '7'];
      expect(seen).toEqual([all.slice(0, 6), all.slice(0, 7).slice(-lowered), all.slice(-lowered)]);
    });

    it('keeps more as soon as it is raised', async () => {
      harness = await createHarness(kind, { buckets: 1 });
      expect(await kept(1, 1, 2, 100)).toEqual([['0'], ['1'], ['1', '2'], ['1', '2', '3']]);
    });
  });
});
