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
      assert.equal((await run.operator.discard({ transport, state: 'dead' })).done, 1);
      assert.deepEqual((await run.operator.discard({ ids: [dead] })).notFound, [dead]);
      assert.equal((await run.operator.discard({ transport })).done, 0, 'what is dead is meant');
      assert.deepEqual(await owned.readyIds(), [ready]);
      if (run.ordered) assert.deepEqual((await owned.take()).messages[0]?.id, blocked);
      const { changed, tooLate } = await run.operator.discard({
        ids: [blocked, waiting],
        transport,
        state: ['waiting', 'blocked'],
      });
      assert.deepEqual(new Set([...changed, ...tooLate]), new Set([blocked, waiting]));
    });

    it('U1: requeue of what is dead changes nothing else', async () => {
      const owned = await run.owned();
      const { transport } = owned;
      const [dead] = await oneOfEach(owned);
      assert.equal((await run.operator.requeue({ transport, state: 'dead' })).done, 1);
      assert.equal((await run.operator.requeue({ transport, state: 'dead' })).done, 0);
      assert.deepEqual((await run.operator.requeue({ ids: [dead], state: 'dead' })).tooLate, [dead]);
    });

    it('U1: with ids too, and says of what is in another state that it is there', async () => {
      const owned = await run.owned();
      const ids = await oneOfEach(owned);
      const report = await run.operator.discard({ ids, state: 'dead' });
      assert.deepEqual(report, { done: 1, changed: ids.slice(0, 1), tooLate: ids.slice(1), notFound: [] });
    });

    it('U1: cancel takes what is scheduled and leaves what is ready, or the other way round', async () => {
      const owned = await run.owned({ leased: false });
      const { transport } = owned;
      const [scheduled, ready] = await owned.insert({ key: null, delay: LATER }, { key: null });
      assert.equal((await run.operator.cancel({ transport, state: 'scheduled' })).done, 1);
      assert.deepEqual((await run.operator.cancel({ ids: [scheduled as string] })).notFound, [scheduled]);
      assert.deepEqual(await owned.readyIds(), [ready]);
      const ids = [ready as string];
      assert.deepEqual((await run.operator.cancel({ ids, state: 'ready' })).changed, ids);
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
