import assert from 'node:assert/strict';
import type { ParkEntry } from '../../store/ready-store.js';
import type { OwnedTransport, StoreRun } from './harness.js';

const LATER = 3_600_000;

/** A filter of states reaches no message in another one. */
export function describeStates(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('operators, by the state of messages', () => {
    it('U1: discard of what is dead leaves what waits behind it, and what it blocked goes on', async () => {
      const owned = await run.owned();
      const { transport } = owned;
      const [dead, blocked, waiting, ready] = await oneOfEach(owned);
      const filter = { transport, states: ['dead'], limit: 10 } as const;
      assert.equal(await run.other.admin.count('discard', filter), 1);
      assert.deepEqual(await run.other.admin.discard(filter), { done: [dead], tooLate: [], notFound: [], left: 0 });
      assert.equal(await run.other.admin.count('discard', filter), 0);
      assert.equal(await run.other.admin.count('discard', { transport, limit: 10 }), 2);
      assert.equal(await run.other.admin.count('discard', { transport, limit: 1 }), 1);
      assert.deepEqual(await owned.readyIds(), [ready]);
      if (run.ordered) assert.deepEqual((await owned.take()).messages[0]?.id, blocked);
      const others = { transport, states: ['waiting', 'blocked'], limit: 10 } as const;
      const { done, tooLate } = await run.other.admin.discard(others);
      assert.deepEqual(new Set([...done, ...tooLate]), new Set([blocked, waiting]));
    });

    it('U1: requeue of what is dead changes nothing else, and counts no more', async () => {
      const owned = await run.owned();
      const { transport } = owned;
      const [dead] = await oneOfEach(owned);
      const filter = { transport, states: ['dead'], limit: 10 } as const;
      assert.equal(await run.other.admin.count('requeue', filter), 1);
      assert.deepEqual(await run.other.admin.requeue(filter), { done: [dead], tooLate: [], notFound: [], left: 0 });
      assert.deepEqual((await run.other.admin.requeue(filter)).done, []);
    });

    it('U1: with ids too, and says of what is in another state that it is there', async () => {
      const owned = await run.owned();
      const ids = await oneOfEach(owned);
      const report = await run.other.admin.discard({ ids, states: ['dead'], limit: 10 });
      assert.deepEqual([report.done, new Set(report.tooLate), report.notFound], [[ids[0]], new Set(ids.slice(1)), []]);
    });

    it('U1: cancel takes what is scheduled and leaves what is ready, or the other way round', async () => {
      const owned = await run.owned({ leased: false });
      const { transport } = owned;
      const [scheduled, ready] = await owned.insert({ key: null, delay: LATER }, { key: null });
      const cancel = (state: 'scheduled' | 'ready') =>
        run.other.admin.cancel({ transport, states: [state], limit: 10 });
      assert.deepEqual(await cancel('scheduled'), { done: [scheduled], tooLate: [], notFound: [], left: 0 });
      assert.deepEqual(await owned.readyIds(), [ready]);
      assert.deepEqual((await cancel('ready')).done, [ready]);
    });
  });
}

/** One that is dead, one blocked behind it, one that waits for its next attempt, and one that is ready. */
async function oneOfEach(
  owned: OwnedTransport,
): Promise<[dead: string, blocked: string, waiting: string, ready: string]> {
  const insert = async (key: string | null): Promise<string> => (await owned.insert({ key }))[0] as string;
  const [dead, blocked, waiting] = [await insert('k'), await insert('k'), await insert(null)];
  const park = async (id: string, entry: Partial<ParkEntry>): Promise<unknown> =>
    owned.park(
      (await owned.ready()).filter((message) => message.id === id),
      entry,
    );
  await park(dead, { state: 'dead', delay: null });
  await park(blocked, { state: 'blocked', delay: null });
  await park(waiting, { state: 'waiting', delay: LATER });
  return [dead, blocked, waiting, await insert(null)];
}
