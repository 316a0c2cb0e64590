import assert from 'node:assert/strict';
import type { OutboxMessage } from '../../outbox-message.js';
import { settled, type Lane, type StoreRun } from './harness.js';

const LATER = 3_600_000;
type Remove = (run: StoreRun, message: OutboxMessage, lane: Lane) => Promise<unknown>;
const REMOVALS: Readonly<Record<string, Remove>> = {
  discard: ({ other }, { id }) => other.discard({ ids: [id], limit: 1 }),
  cancel: ({ other }, { id }) => other.cancel({ ids: [id], limit: 1 }),
  cleanDead: async ({ other }) => {
    while ((await other.cleanDead(0, 100, false)) > 0);
  },
  settle: ({ other }, message, { transport }) => other.settle(transport, [settled(message)], 'delete'),
};

/** Who removes a row of a key makes the key's first row due, if that only waited for the ones before it. */
export function describeWake(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('a removal behind the first row of a key', () => {
    for (const [name, remove] of Object.entries(REMOVALS)) {
      it(`leaves that alone while it is being sent: ${name}`, async () => {
        const lane = await run.lane();
        await lane.insert({}, {}, {});
        const messages = (await lane.ready()) as [OutboxMessage, OutboxMessage, OutboxMessage];
        const [first, second, last] = messages;
        await lane.park([first]);
        await lane.park([second], { state: 'blocked', delay: null });
        await lane.park([last], { state: 'dead', delay: null });
        await lane.settle((await lane.take()).messages);
        assert.equal((await lane.take(['k'])).messages[0]?.id, second.id);
        await remove(run, last, lane);
        await run.store.giveBack(run.owner, lane.leases);
        await lane.acquire(run.store, 60_000);
        assert.deepEqual((await lane.due()).rows, []);
        assert.equal((await lane.take(['k'])).messages[0]?.id, second.id);
      });
    }
  });
}

/** On tables of a global order: the first row of all is woken, whatever its key. */
export function describeGlobalWake(run: StoreRun): void {
  const { describe, it } = run.runner;
  /** Parked in this order; each blocks. */
  const parked = async (
    lane: Lane,
    ...rows: [key: string | null, state: 'waiting' | 'blocked' | 'dead'][]
  ): Promise<OutboxMessage[]> => {
    await lane.insert(...rows.map(([key]) => ({ bucket: 0, key })));
    const messages = await lane.ready();
    for (const [i, message] of messages.entries()) {
      const state = rows[i]?.[1] as 'waiting';
      await lane.park([message], { state, delay: state === 'waiting' ? LATER : null, blocks: true });
    }
    return messages;
  };
  const dueIds = async (lane: Lane): Promise<(string | undefined)[]> => {
    const { rows } = await lane.due();
    const { messages } = await run.store.take({
      ...{ owner: run.owner, transport: lane.transport, leases: lane.leases, due: rows, keys: [], perKey: 1 },
    });
    assert.deepEqual(
      messages.map(({ parkedId }) => parkedId),
      rows.map(({ parkedId }) => parkedId),
    );
    return messages.map(({ id }) => id);
  };

  describe('a global order wakes its first row', () => {
    for (const key of [null, 'a']) {
      for (const [name, remove] of Object.entries(REMOVALS)) {
        it(`when the one before it is removed, key ${key}: ${name}`, async () => {
          const lane = await run.lane();
          const [dead, next] = await parked(lane, [key, 'dead'], ['b', 'blocked'], ['a', 'blocked']);
          await remove(run, dead as OutboxMessage, lane);
          assert.deepEqual(await dueIds(lane), [next?.id]);
        });

        it(`unless it waits for its next try, key ${key}: ${name}`, async () => {
          const lane = await run.lane();
          const [, dead] = await parked(lane, ['b', 'waiting'], [key, 'dead'], ['a', 'blocked']);
          await remove(run, dead as OutboxMessage, lane);
          assert.deepEqual(await dueIds(lane), []);
        });
      }
    }

    it('when a key before it is released', async () => {
      const lane = await run.lane();
      const [, next] = await parked(lane, ['a', 'dead'], ['b', 'blocked'], ['a', 'blocked']);
      assert.deepEqual(await run.other.release({ key: 'a', transport: lane.transport }), { released: 1 });
      assert.deepEqual(await dueIds(lane), [next?.id]);
    });

    it('when it waits for its next try and its own key is released, not another one', async () => {
      const lane = await run.lane();
      const [first] = await parked(lane, ['b', 'waiting'], ['a', 'blocked']);
      assert.deepEqual(await run.other.release({ key: 'a', transport: lane.transport }), { released: 0 });
      assert.deepEqual((await lane.due()).rows, []);
      assert.deepEqual(await run.other.release({ key: 'b', transport: lane.transport }), { released: 0 });
      assert.deepEqual(await dueIds(lane), [first?.id]);
    });

    it('also when nothing of the released key is there', async () => {
      const lane = await run.lane();
      const [first] = await parked(lane, ['b', 'blocked']);
      assert.deepEqual(await run.other.release({ key: 'none', transport: lane.transport }), { released: 0 });
      assert.deepEqual(await dueIds(lane), [first?.id]);
    });
  });
}
