import assert from 'node:assert/strict';
import type { OutboxMessage } from '../message.js';
import { settled, type Lane, type StoreRun } from './store-harness.js';

/** Who removes a row of a key makes the key's first row due, if that only waited for the ones before it. */
export function describeWake(run: StoreRun): void {
  const { describe, it } = run.runner;
  const removals: Readonly<Record<string, (message: OutboxMessage, lane: Lane) => Promise<unknown>>> = {
    discard: ({ id }) => run.other.discard({ ids: [id], limit: 1 }),
    cancel: ({ id }) => run.other.cancel({ ids: [id], limit: 1 }),
    cleanDead: async () => {
      while ((await run.other.cleanDead(0, 100, false)) > 0);
    },
    settle: (message, { transport }) => run.other.settle(transport, [settled(message)], 'delete'),
  };

  describe('a removal behind the first row of a key', () => {
    for (const [name, remove] of Object.entries(removals)) {
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
        await remove(last, lane);
        await run.store.giveBack(run.owner, lane.leases);
        await lane.acquire(run.store, 60_000);
        assert.deepEqual((await lane.due()).rows, []);
        assert.equal((await lane.take(['k'])).messages[0]?.id, second.id);
      });
    }
  });
}
