import type { OutboxMessage } from '../../../lib/index.js';
import { takeOnce } from '../../support/parked-reader.js';
import { randomUUID } from 'node:crypto';
import { Ledger } from '../../../lib/relay/ledger.js';
import { ParkedKeys } from '../../../lib/relay/order/parked-keys.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import type { TransportRelayDependencies } from '../../../lib/relay/relay.types.js';
import { ParkedReader } from '../../../lib/relay/order/parked-reader.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import { createHarness, type Harness, wrapped } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

const KEYS = 12;

/** More keys are blocked than fit into memory. */
describe.each(DATABASES)('%s: more blocked keys than are held', (kind) => {
  describeWith(kind, 'blocked keys', () => {
    let harness: Harness;
    let leases: Lease[];
    let owner: string;
    const buckets = [0, 1];
    beforeEach(async () => {
      harness = await createHarness(kind, { buckets: buckets.length });
      owner = randomUUID();
      leases = await acquire();
    });
    afterEach(() => harness.close());
    const acquire = () =>
      harness.store.leases.acquire({ owner, leaseMs: 3_600_000, transport: 0, limit: buckets.length });

    /** In each bucket the keys in front are dead; what is behind the last one was being sent when its owner crashed. */
    async function crashed(): Promise<string[]> {
      const names = Array.from({ length: KEYS }, (_, i) => `k${String(i).padStart(2, '0')}`);
      await harness.enqueue(buckets.flatMap((bucket) => names.map((key) => ({ bucket, key: `${bucket} ${key}` }))));
      const { messages } = await harness.store.ready.fetch({
        transport: 0,
        positions: buckets.map((bucket) => ({ bucket, after: '0' })),
        perBucket: 100,
        limit: 100,
      });
      const isLast = ({ key }: OutboxMessage): boolean => key?.endsWith(names.at(-1) as string) === true;
      const entries = messages.map((message) => {
        const state = isLast(message) ? ('blocked' as const) : ('dead' as const);
        const { id, bucket, seq } = message;
        return { id, bucket, seq, state, blocks: true, attempts: 1, delay: null, error: 'no' };
      });
      await harness.store.ready.park(owner, leases, entries);
      const keys = messages.filter(isLast).map(({ bucket, key }) => ({ bucket, key: key as string }));
      const taken = await harness.store.parked.take({ owner, transport: 0, leases, due: [], keys, perKey: 10 });
      expect(taken.messages).toHaveLength(buckets.length);
      await harness.store.leases.giveBack(owner, leases);
      leases = await acquire();
      return taken.messages.map(({ id }) => id);
    }

    it('what an older epoch was sending is found behind them, a part of the keys at each pass', async () => {
      const ids = await crashed();
      const asked: number[] = [];
      const { store } = harness;
      const relay = {
        id: 0,
        clock: new FakeClock(), // nothing that comes again after a while does
        options: { ordering: 'key', pollInterval: 60_000 },
        leases: {
          owner,
          of: () => new Map(leases.map((lease) => [lease.bucket, lease])),
          lease: (_: number, bucket: number) => leases.find((lease) => lease.bucket === bucket),
        },
        store: wrapped(store, {
          async blockingKeys(...of) {
            const keys = await store.parked.blockingKeys(...of);
            asked.push(keys.length);
            return keys;
          },
        }),
      } as unknown as TransportRelayDependencies;
      const accepted: string[] = [];
      const reader = new ParkedReader(
        relay,
        new Ledger(({ key }) => key),
        { has: () => true },
        { isAside: () => false },
        { hold: () => undefined },
        new ParkedKeys(5),
      );
      await reader.load(buckets);
      for (let pass = 0; pass < KEYS && accepted.length < ids.length; pass += 1)
        accepted.push(...(await takeOnce(reader, buckets, leases, 100)).map(({ id }) => id));
      expect(accepted.sort()).toEqual([...ids].sort());
      const rounds = asked.length;
      expect(Math.max(...asked)).toBe(5);
      for (let pass = 0; pass < KEYS; pass += 1) await takeOnce(reader, buckets, leases, 100);
      expect(asked.length).toBeLessThanOrEqual(rounds + 1); // once round, and not again soon
      expect(reader.keys.size).toBeLessThanOrEqual(10);
    });
  });
});
