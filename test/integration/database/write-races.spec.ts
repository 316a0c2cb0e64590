import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../../lib/index.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type { WriteReport } from '../../../lib/store/ready-store.js';
import { parkEntry, settled } from '../../../lib/testing/store-contract/harness.js';
import { OpenTransaction, waitsForLock } from '../../support/open-transactions.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

/** What becomes of a message is written at the moment when somebody else changes its parked row: it must not be passed over. */
describe.each(DATABASES)('%s: writing about what changes at that moment', (kind) => {
  describeWith(kind, 'a parked row', () => {
    let harness: Harness;
    let leases: Lease[];
    let message: OutboxMessage;
    const owner = randomUUID();
    const now = kind === 'postgres' ? 'now()' : 'utc_timestamp(6)';
    beforeEach(async () => {
      harness = await createHarness(kind, { buckets: 1 });
      leases = await harness.store.leases.acquire({ owner, leaseMs: 60_000, transport: 0, limit: 1 });
      await harness.enqueue([{ key: 'k' }]);
      const positions = [{ bucket: 0, after: '0' }];
      const { messages } = await harness.store.ready.fetch({ transport: 0, positions, perBucket: 1, limit: 1 });
      message = messages[0] as OutboxMessage;
      await harness.store.ready.park(owner, leases, [parkEntry(message, { delay: 0 })]);
    });
    afterEach(async () => {
      await OpenTransaction.endAll();
      await harness.close();
    });

    /** Begins while the row is changed but not committed, and ends after the commit. */
    async function meets(change: string, write: () => Promise<WriteReport>): Promise<number> {
      const other = await OpenTransaction.begin(harness);
      await other.query(`update outbox_parked set ${change}`);
      const writing = write();
      expect(await waitsForLock(harness, writing)).toBe(true);
      await other.commit();
      return (await writing).affected;
    }
    async function taken(): Promise<OutboxMessage> {
      const { rows } = await harness.store.parked.due(0, [0], 1);
      const { messages } = await harness.store.parked.take({
        owner,
        transport: 0,
        leases,
        due: rows,
        keys: [],
        perKey: 1,
      });
      return messages[0] as OutboxMessage;
    }
    const repark = ({ parkedId, bucket, attempts }: OutboxMessage) =>
      harness.store.parked.repark(owner, leases, [
        {
          ...{ parkedId: parkedId as string, bucket, attempts: attempts + 1, attemptsBefore: attempts },
          ...{ state: 'waiting', blocks: true, delay: 0, error: 'no' },
        },
      ]);

    it.each(['delete', 'archive'] as const)('a late success removes what the next owner takes: %s', async (how) => {
      const success = () => harness.store.ready.settle(0, [settled(message)], how);
      expect(await meets(`sending_epoch = ${leases[0]?.epoch}`, success)).toBe(1);
      expect(await harness.count('parked')).toBe(0);
      expect(await harness.count('archive')).toBe(how === 'archive' ? 1 : 0);
    });

    it('a failure is written although somebody touches the row that was sent', async () => {
      const sent = await taken();
      expect(await meets(`due_at = ${now}`, () => repark(sent))).toBe(1);
      expect(await taken()).toMatchObject({ id: message.id, attempts: sent.attempts + 1 });
    });

    it('a failure does not undo what gives the row a new life', async () => {
      const sent = await taken();
      const requeued = `state = 2, due_at = ${now}, attempts = 0, sending_epoch = null`;
      expect(await meets(requeued, () => repark(sent))).toBe(0);
      expect(await taken()).toMatchObject({ id: message.id, attempts: 0 });
    });
  });
});
