import assert from 'node:assert/strict';
import type { OutboxMessage } from '../../outbox-message.js';
import type { LockedOutcome, RowLockStore } from '../../store/parked-store.js';
import { idsOf, type OwnedTransport, parkEntry, repark, settled, type StoreRun } from './harness.js';

const NOTHING: LockedOutcome = { published: [], parked: [], reparked: [] };
const LATER = 3_600_000;
const sortedIds = (messages: readonly OutboxMessage[]): string[] => idsOf(messages).sort();
const all = (messages: readonly OutboxMessage[]): LockedOutcome => ({ ...NOTHING, published: messages.map(settled) });

type Work = Parameters<RowLockStore['withLockedRows']>[1];

async function lock(owned: OwnedTransport, work: Work, { store = owned.store, limit = 100 } = {}): Promise<number> {
  const request = { transport: owned.transport, limit, onPublished: 'delete' } as const;
  return (await store.rowLocks.withLockedRows(request, work)).locked;
}

/** What is there for the next one to lock, and what becomes of it. */
async function collect(owned: OwnedTransport, outcome: (messages: OutboxMessage[]) => LockedOutcome = () => NOTHING) {
  let seen: OutboxMessage[] = [];
  await lock(owned, async (messages) => {
    seen = messages;
    return outcome(messages);
  });
  return seen;
}

export function describeRowLocks(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('row locks', () => {
    it('gives no row to two, and writes what became of each', async () => {
      const owned = await run.owned({ leased: false });
      const ids = await owned.insert(
        { key: null },
        { bucket: 2 },
        { bucket: 3, payload: Buffer.from([0, 255]) },
        { delay: 0, bucket: 4 },
      );
      const seen: string[] = [];
      const mineFirst: Work = async (mine) => {
        const others = await lock(
          owned,
          async (theirs) => {
            assert.equal(theirs.length, 1);
            seen.push(...sortedIds(theirs));
            return NOTHING;
          },
          { store: run.other },
        );
        assert.equal(others, 1);
        seen.push(...sortedIds(mine));
        const [scheduled] = mine.filter(({ parkedId }) => parkedId !== null) as [OutboxMessage];
        const [parked, ...published] = mine.filter(({ parkedId }) => parkedId === null) as [OutboxMessage];
        return {
          published: published.map(settled),
          parked: [parkEntry(parked, { blocks: false, attempts: 2 })],
          reparked: [repark(scheduled, { blocks: false, attempts: 3 })],
        };
      };
      assert.equal(await lock(owned, mineFirst, { limit: 3 }), 3);
      assert.deepEqual(seen.sort(), [...ids].sort());
      const left = await collect(owned);
      assert.deepEqual(left.map(({ attempts }) => attempts).sort(), [0, 2, 3]);
    });

    it('writes nothing when the work throws', async () => {
      const owned = await run.owned({ leased: false });
      const ids = await owned.insert({}, { delay: 0, bucket: 2 });
      await assert.rejects(
        lock(owned, () => Promise.reject(new Error('broker'))),
        /broker/,
      );
      assert.deepEqual(sortedIds(await collect(owned, all)), [...ids].sort());
      assert.deepEqual(await collect(owned), []);
    });

    it('leaves what has to wait or is dead', async () => {
      const owned = await run.owned();
      await owned.insert({ delay: LATER });
      const [dead] = await owned.insert({ key: null });
      await owned.park(await owned.ready(), { state: 'dead', delay: null });
      assert.deepEqual(await collect(owned), []);
      const [ready] = await owned.insert({ key: null });
      assert.deepEqual(sortedIds(await collect(owned, all)), [ready]);
      assert.deepEqual((await run.operator.requeue({ ids: [dead as string] })).changed, [dead]);
      assert.deepEqual(sortedIds(await collect(owned, all)), [dead]);
    });

    it('takes as many as allowed, out of every bucket in turn', async () => {
      const owned = await run.owned({ leased: false });
      const ids = await owned.insert(...owned.allBuckets.flatMap((bucket) => [{ bucket }, { bucket, delay: 0 }]));
      const seen: string[] = [];
      for (let count = 3; count === 3;) {
        const work: Work = async (messages) => {
          seen.push(...sortedIds(messages));
          return all(messages);
        };
        count = await lock(owned, work, { limit: 3 });
      }
      assert.deepEqual(seen.sort(), [...ids].sort());
    });

    for (const limit of [1, 3]) {
      it(`asks what is due and what is ready first in turn, ${limit} at a time: neither starves the other`, async () => {
        // Two transports of one process: each has turns of its own.
        const ownedTransports = [await run.owned({ leased: false }), await run.owned({ leased: false })];
        const rows = Array.from({ length: 5 }, () => [{}, { delay: 0 }]).flat();
        for (const owned of ownedTransports) await owned.insert(...rows);
        const first = ownedTransports.map((): string[] => []);
        for (let round = 0; round < 4; round += 1) {
          for (const [i, owned] of ownedTransports.entries()) {
            const work: Work = async (messages) => {
              assert.equal(messages.length, limit);
              first[i]?.push(messages[0]?.parkedId === null ? 'ready' : 'due');
              return NOTHING;
            };
            await lock(owned, work, { limit });
          }
        }
        for (const asked of first) assert.deepEqual(asked.sort(), ['due', 'due', 'ready', 'ready']);
      });
    }

    it('holds up neither writers nor readers nor another transport while messages are on their way', async () => {
      const [owned, other] = [await run.owned({ leased: false }), await run.owned({ leased: false })];
      await owned.insert({}, {});
      const [elsewhere] = await other.insert({});
      const work: Work = async (messages) => {
        assert.equal(messages.length, 2);
        await owned.insert({});
        assert.equal((await owned.ready()).length, 3);
        assert.deepEqual(sortedIds(await collect(other, all)), [elsewhere]);
        return all(messages);
      };
      assert.equal(await lock(owned, work), 2);
      assert.equal((await owned.ready()).length, 1);
    });
  });
}
