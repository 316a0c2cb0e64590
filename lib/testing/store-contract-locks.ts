import assert from 'node:assert/strict';
import type { OutboxMessage } from '../message.js';
import { parkEntry, settled, type Lane, type StoreRun } from './store-harness.js';
import { repark } from './store-contract-parked.js';

const NOTHING = { published: [], parked: [], reparked: [] };
const idsOf = (messages: readonly OutboxMessage[]): string[] => messages.map(({ id }) => id).sort();

/** Only for stores that have it. */
export function describeRowLocks(run: StoreRun): void {
  const { describe, it } = run.runner;
  const locked = (lane: Lane, store = run.store, limit = 100) => {
    const request = { transport: lane.transport, limit, onPublished: 'delete' as const };
    return (work: Parameters<NonNullable<typeof store.withLockedRows>>[1]) =>
      store.withLockedRows === undefined ? undefined : store.withLockedRows(request, work);
  };
  describe('row locks', () => {
    it('gives no row to two, and writes what became of each', async () => {
      if (run.store.withLockedRows === undefined) return;
      const lane = await run.lane({ leased: false });
      const ids = await lane.insert(
        { key: null },
        { bucket: 2 },
        { bucket: 3, payload: Buffer.from([0, 255]) },
        { delay: 0, bucket: 4 },
      );
      const seen: string[] = [];
      const count = await locked(
        lane,
        run.store,
        3,
      )(async (mine) => {
        const others = await locked(
          lane,
          run.other,
        )(async (theirs) => {
          assert.equal(theirs.length, 1);
          seen.push(...idsOf(theirs));
          return NOTHING;
        });
        assert.equal(others, 1);
        seen.push(...idsOf(mine));
        const [scheduled] = mine.filter(({ parkedId }) => parkedId !== null) as [OutboxMessage];
        const [parked, ...published] = mine.filter(({ parkedId }) => parkedId === null) as [
          OutboxMessage,
          ...OutboxMessage[],
        ];
        return {
          published: published.map(settled),
          parked: [parkEntry(parked, { blocks: false, attempts: 2 })],
          reparked: [repark(scheduled, { blocks: false, attempts: 3 })],
        };
      });
      assert.equal(count, 3);
      assert.deepEqual(seen.sort(), [...ids].sort());
      const left = await collect(locked(lane));
      assert.equal(left.length, 3);
      assert.deepEqual(left.map(({ attempts }) => attempts).sort(), [0, 2, 3]);
    });

    it('writes nothing when the work throws', async () => {
      if (run.store.withLockedRows === undefined) return;
      const lane = await run.lane({ leased: false });
      const ids = await lane.insert({}, {});
      await assert.rejects(
        async () =>
          locked(lane)(async () => {
            throw new Error('broker');
          }),
        /broker/,
      );
      const rest = await collect(locked(lane), (messages) => ({ ...NOTHING, published: messages.map(settled) }));
      assert.deepEqual(idsOf(rest), [...ids].sort());
      assert.deepEqual(await collect(locked(lane)), []);
    });
  });
  describe('a global order', () => {
    it('is held by any blocking row, with a key or without', async () => {
      const lane = await run.lane();
      assert.equal(await run.store.hasBlocking(lane.transport, lane.allBuckets), false);
      await lane.parked({ key: null }, { blocks: true });
      assert.equal(await run.store.hasBlocking(lane.transport, lane.allBuckets), true);
      assert.equal(await run.store.hasBlocking(lane.transport, [5]), false);
    });
  });
}

type Locked = (work: (messages: OutboxMessage[]) => Promise<typeof NOTHING>) => Promise<number> | undefined;

async function collect(
  locked: (work: (messages: OutboxMessage[]) => Promise<never>) => Promise<number> | undefined,
  outcome: (messages: OutboxMessage[]) => unknown = () => NOTHING,
): Promise<OutboxMessage[]> {
  let all: OutboxMessage[] = [];
  await (locked as unknown as Locked)(async (messages) => {
    all = messages;
    return outcome(messages) as typeof NOTHING;
  });
  return all;
}
