import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describeGlance } from './glance.js';
import { idsOf, leave, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;

/** A dead first row and two blocked behind it. */
async function blockedKey(owned: OwnedTransport, key = 'k'): Promise<string[]> {
  await owned.insert({ key }, { key }, { key });
  const messages = (await owned.ready()).filter((message) => message.key === key);
  await owned.park(messages.slice(0, 1), { state: 'dead', delay: null });
  await owned.park(messages.slice(1), { state: 'blocked', delay: null });
  return messages.map(({ id }) => id);
}

export function describeOperators(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  describe('cancel', () => {
    it('stops what a lost lease was sending', async () => {
      const owned = await run.owned();
      const id = await owned.parked({ key: null });
      await owned.take();
      await run.store.leases.giveBack(run.owner, owned.leases);
      assert.deepEqual((await run.operator.cancel({ ids: [id] })).changed, [id]);
    });

    it('deletes what its filter names, and nothing else', async () => {
      const owned = await run.owned();
      const [first] = await owned.insert(
        { delay: LATER, topic: 'a' },
        { delay: LATER, topic: 'a', type: 'x' },
        { delay: LATER, key: 'other' },
      );
      const { transport } = owned;
      assert.equal((await run.operator.cancel({ transport, topic: 'a', type: 'y', state: 'scheduled' })).done, 0);
      assert.equal((await run.operator.cancel({ transport, topic: 'a', type: 'x', state: 'scheduled' })).done, 1);
      assert.equal((await run.operator.cancel({ transport, key: 'other', state: 'scheduled' })).done, 1);
      assert.deepEqual((await run.operator.cancel({ ids: [first as string] })).changed, [first]);
    });
  });

  describe('requeue', () => {
    inOrder('puts a dead message back into its old place', async () => {
      const owned = await run.owned();
      const ids = await blockedKey(owned);
      const { transport } = owned;
      assert.equal((await run.operator.requeue({ transport, key: 'k', type: 'order.placed' })).done, 1);
      const first = await owned.take();
      assert.deepEqual(
        first.messages.map(({ id, attempts }) => [id, attempts]),
        [[ids[0], 0]],
      );
      await owned.settle(first.messages);
      assert.deepEqual(idsOf((await owned.take(['k'])).messages), ids.slice(1));
    });

    inOrder('does not let a later message pass an earlier one', async () => {
      const owned = await run.owned();
      const ids = await blockedKey(owned);
      assert.deepEqual((await run.operator.requeue({ ids: ids.slice(2) })).changed, ids.slice(2));
      assert.deepEqual((await owned.take(['k'])).messages, []);
      assert.deepEqual((await owned.due()).rows, []);
    });
  });

  describe('discard and release', () => {
    inOrder('deletes the first of a key, and the key goes on', async () => {
      const owned = await run.owned();
      const ids = await blockedKey(owned);
      assert.deepEqual((await run.operator.discard({ ids: [ids[0] as string] })).changed, [ids[0]]);
      assert.deepEqual(idsOf((await owned.take()).messages), ids.slice(1));
    });

    it('leave the first of a key its backoff, whatever behind it is removed', async () => {
      const owned = await run.owned();
      const ids = await owned.insert({ key: 'k' }, { key: 'k' }, { key: 'k' }, { key: 'k' });
      const messages = await owned.ready();
      await owned.park(messages.slice(0, 1), { state: 'waiting', delay: LATER });
      await owned.park(messages.slice(1, 3), { state: 'blocked', delay: null });
      await owned.park(messages.slice(3), { state: 'dead', delay: null });
      assert.deepEqual((await run.operator.discard({ ids: [ids[2] as string] })).changed, [ids[2]]);
      assert.deepEqual((await run.operator.cancel({ ids: [ids[1] as string] })).changed, [ids[1]]);
      while ((await run.store.cleaner.clean('dead', 0, 100)).removed > 0);
      assert.deepEqual((await owned.due()).rows, []);
    });

    inOrder('lets a key go on past its dead message, which stays', async () => {
      const owned = await run.owned();
      const key = randomUUID();
      const bucket = run.bucketOf(key);
      const rows = [
        { key, bucket },
        { key, bucket },
      ];
      const ids = await owned.insert(...rows);
      const messages = await owned.ready();
      await owned.park(messages.slice(0, 1), { state: 'dead', delay: null });
      await owned.park(messages.slice(1), { state: 'blocked', delay: null });
      assert.deepEqual(await run.operator.release(key, owned.transport), 1);
      const taken = await owned.take();
      assert.deepEqual(idsOf(taken.messages), ids.slice(1));
      await owned.settle(taken.messages);
      assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10), []);
      assert.deepEqual((await run.operator.requeue({ ids: [ids[0] as string] })).changed, [ids[0]]);
      assert.deepEqual(await run.operator.release(randomUUID()), 0);
    });
  });
  describeStats(run);
  describeGlance(run);
}

function describeStats(run: StoreRun): void {
  const { describe } = run.runner;
  const { inOrder } = run;
  describe('stats', () => {
    inOrder('counts by transport and state', async () => {
      const owned = await run.owned();
      const owner = randomUUID();
      await run.store.leases.beat({ owner, transports: [owned.transport], info: '' }, 60_000);
      await blockedKey(owned);
      await owned.insert({ delay: LATER });
      await owned.parked({ key: null }, { delay: LATER });
      await owned.insert({}, { bucket: 2 });
      const stats = await owned.stats();
      await leave(run.store, owner);
      assert.ok(stats.oldestReadyAge !== null && stats.oldestReadyAge >= 0);
      const {
        missingLeases = 0,
        rowsHidden = false,
        failingOften = 0,
        mostAttempts = 0,
        heads,
        readOnly: _,
        ...counts
      } = stats;
      assert.deepEqual([missingLeases, rowsHidden, failingOften, mostAttempts, heads.length], [0, false, 0, 0, 2]);
      assert.deepEqual(
        { ...counts, oldestReadyAge: null },
        {
          transport: owned.transport,
          name: owned.name,
          ready: 2,
          readyIsExact: true,
          scheduled: 1,
          waiting: 1,
          blocked: 2,
          dead: 1,
          blockedKeys: 1,
          oldestReadyAge: null,
          leasedBuckets: owned.allBuckets.length,
        },
      );
    });
  });
}
