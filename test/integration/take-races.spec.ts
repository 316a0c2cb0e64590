import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../lib/message.js';
import type { Lease } from '../../lib/store/lease-store.js';
import { waitsForLock } from '../support/open-transactions.js';
import { createHarness, type Harness } from '../support/relay.js';
import { describeWith } from '../support/services.js';

/** What an operator's `release` or `requeue` does to a key's first row at the moment when the relay takes the key. */
describe.each(['postgres', 'mariadb'] as const)('%s: taking what changes at that moment', (kind) => {
  describeWith(kind, 'parked rows of a key', () => {
    let harness: Harness;
    let leases: Lease[];
    const owner = randomUUID();
    beforeEach(async () => {
      harness = await createHarness(kind, { buckets: 1 });
      leases = await harness.store.acquire({ owner, leaseMs: 60_000, transport: 0, limit: 1 });
    });
    afterEach(() => harness.close());

    /** Blocked, in this order, behind nothing. */
    async function blocked(count: number): Promise<OutboxMessage[]> {
      await harness.enqueue(Array.from({ length: count }, () => ({ key: 'k' })));
      const { messages } = await harness.store.fetch({
        transport: 0,
        positions: [{ bucket: 0, after: '0' }],
        perBucket: 100,
        limit: 100,
      });
      await harness.store.park(
        owner,
        leases,
        messages.map(({ id, bucket, seq }) => ({
          ...{ id, bucket, seq, state: 'blocked' as const, blocks: true, attempts: 0, delay: null, error: null },
        })),
      );
      return messages;
    }
    const take = () =>
      harness.store.take({ owner, transport: 0, leases, due: [], keys: [{ bucket: 0, key: 'k' }], perKey: 100 });

    it.each([0, 1])('nothing behind row %i is taken without it', async (changed) => {
      const rows = await blocked(4);
      const ids = rows.map(({ id }) => id);
      const operator = harness.dataSource.createQueryRunner();
      await operator.startTransaction();
      await operator.query(
        `update outbox_parked set due_at = ${kind === 'postgres' ? 'now()' : 'utc_timestamp(6)'} where seq = ${rows[changed]?.seq}`,
      );
      const first = take();
      expect(await waitsForLock(harness, first)).toBe(true);
      await operator.commitTransaction();
      await operator.release();
      const taken = (await first).messages.map(({ id }) => id);
      expect(taken).toEqual(ids.slice(0, taken.length)); // a part from the front, or all
      const rest = (await take()).messages.map(({ id }) => id);
      expect(rest).toEqual(taken.length === 0 ? ids : []); // all of it, unless its first ones are out
    });

    it('what is deleted at that moment is not taken', async () => {
      const [first, second] = await blocked(2);
      const operator = harness.dataSource.createQueryRunner();
      await operator.startTransaction();
      await operator.query(`delete from outbox_parked where seq = ${second?.seq}`);
      const taking = take();
      expect(await waitsForLock(harness, taking)).toBe(true);
      await operator.commitTransaction();
      await operator.release();
      expect((await taking).messages.map(({ id }) => id)).toEqual([first?.id]);
    });
  });
});
