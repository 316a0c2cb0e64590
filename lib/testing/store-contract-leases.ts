import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Lease } from '../store/lease-store.js';
import { eventually, type Lane, type StoreRun } from './store-harness.js';

const MINUTE = 60_000;

export function describeLeases(run: StoreRun): void {
  const { describe, it } = run.runner;
  const acquire = (lane: Lane, owner: string, fields: { limit?: number; only?: number[]; leaseMs?: number } = {}) =>
    run.other.acquire({ owner, transport: lane.transport, leaseMs: MINUTE, limit: 1000, ...fields });

  describe('leases', () => {
    it('gives each bucket to one owner, up to the limit, of those asked for', async () => {
      const lane = await run.lane({ leased: false });
      const [a, b] = [randomUUID(), randomUUID()];
      assert.equal((await acquire(lane, a, { limit: 3 })).length, 3);
      assert.deepEqual((await acquire(lane, b, { only: [0, 5, 6], limit: 10 })).map(bucketOf), [5, 6]);
      assert.equal((await acquire(lane, b)).length, lane.allBuckets.length - 5);
      assert.deepEqual(await acquire(lane, a), []);
      assert.deepEqual(await acquire(lane, a, { limit: 0 }), []);
    });

    it('counts an epoch with every acquisition, also by the same owner, and never with a renewal', async () => {
      const lane = await run.lane({ leased: false });
      const owner = randomUUID();
      const [first] = (await acquire(lane, owner, { limit: 1 })) as [Lease];
      assert.deepEqual(await run.store.renew(owner, MINUTE), [first]);
      await run.store.giveBack(owner, [first]);
      assert.deepEqual(await run.store.renew(owner, MINUTE), []);
      const [second] = (await acquire(lane, owner, { only: [first.bucket] })) as [Lease];
      assert.equal(BigInt(second.epoch), BigInt(first.epoch) + 1n);
      await run.store.giveBack(owner, [first]); // an epoch of before: not its lease any more
      assert.deepEqual(await run.store.renew(owner, MINUTE), [second]);
    });

    it('is lost when it expires: not renewed, free for others', async () => {
      const lane = await run.lane({ leased: false });
      const [late, next] = [randomUUID(), randomUUID()];
      const old = await acquire(lane, late, { leaseMs: 1, limit: 2 });
      assert.equal(old.length, 2);
      const taken: Lease[] = [];
      await eventually('takeover', async () => {
        // Each lease ends at its own time: a look between the two ends finds one of them.
        taken.push(...(await acquire(lane, next, { only: old.map(bucketOf) })));
        return taken.length >= 2 ? true : undefined;
      });
      assert.deepEqual(
        byBucket(taken),
        byBucket(old).map((lease) => ({ ...lease, epoch: String(BigInt(lease.epoch) + 1n) })),
      );
      assert.deepEqual(await run.store.renew(late, MINUTE), []);
      await run.store.giveBack(late, old);
      assert.deepEqual(byBucket(await run.store.renew(next, MINUTE)), byBucket(taken));
    });

    it('is cleared by the unlocker once expired, never before', async () => {
      const lane = await run.lane({ leased: false });
      const [dead, alive] = [randomUUID(), randomUUID()];
      const [expired] = (await acquire(lane, dead, { leaseMs: 1, limit: 1 })) as [Lease];
      const held = await acquire(lane, alive, { limit: 1, only: [3] });
      const cleared = await eventually('expiry', async () => {
        const all = (await run.store.expire()).filter(({ transport }) => transport === lane.transport);
        return all.length > 0 ? all : undefined;
      });
      assert.deepEqual(cleared, [{ ...expired, owner: dead }]);
      assert.deepEqual(await run.store.renew(alive, MINUTE), held);
      assert.deepEqual(
        (await run.store.expire()).filter(({ transport }) => transport === lane.transport),
        [],
      );
    });
  });

  describe('instances', () => {
    it('sees who is alive, with what, until they leave or stop beating', async () => {
      const [a, b] = [randomUUID(), randomUUID()];
      await run.store.beat({ owner: a, transports: [1, 2], info: 'a' }, MINUTE);
      const both = await run.other.beat({ owner: b, transports: [], info: 'b \u{1F4A5}' }, MINUTE);
      assert.deepEqual(
        both.find(({ owner }) => owner === a),
        { owner: a, transports: [1, 2], info: 'a' },
      );
      assert.deepEqual(
        both.find(({ owner }) => owner === b),
        { owner: b, transports: [], info: 'b \u{1F4A5}' },
      );
      await run.store.leave(a);
      await run.other.beat({ owner: a, transports: [3], info: 'a' }, 1);
      await eventually('death of a', async () => {
        const alive = await run.store.beat({ owner: b, transports: [7], info: 'b' }, MINUTE);
        assert.deepEqual(alive.find(({ owner }) => owner === b)?.transports, [7]);
        return alive.some(({ owner }) => owner === a) ? undefined : true;
      });
      await run.store.leave(b);
    });
  });
}

const byBucket = (leases: readonly Lease[]): Lease[] => [...leases].sort((a, b) => a.bucket - b.bucket);
const bucketOf = (lease: Lease): number => lease.bucket;
