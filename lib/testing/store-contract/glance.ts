import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TransportStats } from '../../store/admin-store.js';
import { leave, type OwnedTransport, type StoreRun } from './harness.js';

/** Milliseconds in which a busy server has time for one look. */
const PATIENCE = 60_000;

/** What a probe asks. */
export function describeGlance(run: StoreRun): void {
  const { describe, it } = run.runner;
  const look = async (owned: OwnedTransport, after = '0', limit = 1_000): Promise<TransportStats> => {
    const request = { limit, look: { buckets: owned.allBuckets, after: () => after }, within: PATIENCE };
    return owned.stats(request);
  };
  describe('a look', () => {
    run.inOrder('counts by state as stats does, and names the first ready message of each bucket', async () => {
      const owned = await run.owned();
      await owned.insert({ key: 'a' }, { key: 'a' }, { key: 'b', delay: 3_600_000 });
      const [dead, behind] = await owned.ready();
      await owned.park([dead, behind].slice(0, 1) as never, { state: 'dead', delay: null });
      await owned.park([dead, behind].slice(1) as never, { state: 'blocked', delay: null });
      await owned.parked({ key: null }, { delay: 3_600_000 });
      const [first] = (await owned.insert({ bucket: 1 }, { bucket: 1 }, { bucket: 3 })) as [string];
      const found = await look(owned);
      assert.deepEqual(
        [found.name, found.scheduled, found.waiting, found.blocked, found.dead, found.blockedKeys, found.atLeast],
        [owned.name, 1, 1, 1, 1, 1, undefined],
      );
      const heads = [...found.heads].sort((a, b) => a.bucket - b.bucket);
      assert.deepEqual(
        heads.map(({ bucket, ready }) => [bucket, ready]),
        [
          [1, 2],
          [3, 1],
        ],
      );
      assert.equal(heads[0]?.id, first);
      assert.ok((heads[0]?.age as number) >= 0 && (heads[0]?.age as number) < 60_000);
      const rows = await owned.ready();
      assert.equal(heads[0]?.seq, rows.find(({ id }) => id === first)?.seq);
      const later = await look(owned, heads[0]?.seq);
      assert.equal(
        later.heads.some(({ id }) => id === first),
        false,
      );
    });

    run.inOrder('counts what waits by topic, and what is behind it, each up to a limit', async () => {
      const owned = await run.owned();
      await owned.insert({ key: 'a', topic: 'A' }, { key: 'a', topic: 'a' });
      const [first, behind] = await owned.ready();
      await owned.park([first] as never, { state: 'waiting', delay: 3_600_000 });
      await owned.park([behind] as never, { state: 'blocked', delay: null });
      await owned.parked({ key: null, topic: 'A' }, { delay: 3_600_000 });
      await owned.parked({ key: null, topic: 'A' }, { state: 'dead', delay: null });
      await owned.insert({ topic: 'A' }, { topic: 'A', delay: 3_600_000 });
      const counted = async (limit: number) => {
        const { topics } = await owned.stats({ limit, topicsOf: [owned.transport] });
        return [...(topics ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
      };
      assert.deepEqual(await counted(1_000), [
        ['A', 2],
        ['a', 1],
      ]);
      assert.ok((await counted(1)).reduce((sum, [, count]) => sum + count, 0) <= 2);
    });

    it('says whose lease a bucket has, and whether its owner lives', async () => {
      const owned = await run.owned();
      await owned.insert({ bucket: 1 });
      const owner = run.owner;
      const lease = async () => (await look(owned)).heads[0]?.lease;
      await leave(run.store, owner);
      assert.deepEqual({ ...(await lease()), remaining: 0 }, { owner, remaining: 0, alive: false });
      await run.store.leases.beat({ owner, transports: [owned.transport], info: '' }, 60_000);
      const held = await lease();
      await leave(run.store, owner);
      assert.equal(held?.alive, true);
      assert.ok((held?.remaining as number) > 1_000 && (held?.remaining as number) <= 60_000);
      await run.store.leases.giveBack(owner, owned.leases);
      assert.equal(await lease(), null);
    });

    it('stops each count near the limit, and says so', async () => {
      const owned = await run.owned();
      const { length } = owned.allBuckets;
      const most = 3 * length;
      const each = Array.from({ length: most + length }, () => ({ key: randomUUID() }));
      await owned.insert(...each.map((fields) => ({ ...fields, delay: 3_600_000 })));
      await owned.insert(...each);
      const found = await look(owned, '0', length);
      const ready = most + length;
      for (const limit of [ready - 1, ready, ready + 1]) {
        const { ready: counted, readyIsExact } = await owned.stats({ limit });
        assert.deepEqual([counted, readyIsExact], [Math.min(ready, limit), ready < limit], `limit ${limit}`);
      }
      assert.equal(found.heads[0]?.ready, 1);
      if (found.atLeast === undefined) return; // exact, in a store where that costs nothing
      assert.ok(found.atLeast.includes('scheduled') && found.scheduled <= most, String(found.scheduled));
    });
  });
}
