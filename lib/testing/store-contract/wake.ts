import assert from 'node:assert/strict';
import type { OutboxMessage, ParkedState } from '../../outbox-message.js';
import { idsOf, Operator, settled, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;
type Remove = (run: StoreRun, message: OutboxMessage, owned: OwnedTransport) => Promise<unknown>;
const REMOVALS: Readonly<Record<string, Remove>> = {
  discard: ({ operator }, { id }) => operator.discard({ ids: [id] }),
  cancel: ({ operator }, { id }) => operator.cancel({ ids: [id] }),
  cleanDead: async ({ other }) => {
    while ((await other.cleaner.clean('dead', 0, 100)).removed > 0);
  },
  settle: ({ other }, message, { transport }) => other.ready.settle(transport, [settled(message)], 'delete'),
};

/** Who removes a row of a key makes the key's first row due, if that only waited for the ones before it. */
export function describeWake(run: StoreRun): void {
  const { describe, it } = run.runner;
  it('wakes what stands behind two rows that are removed side by side', async () => {
    const owned = await run.owned();
    const operators = [run.operator, new Operator(run.store, run.harness.settings)];
    for (let round = 0; round < 20; round += 1) {
      const states = (round % 2 ? ['dead', 'dead', 'blocked'] : ['waiting', 'blocked', 'blocked']) as ParkedState[];
      const ids = await owned.insert({}, {}, {});
      for (const [i, message] of (await owned.ready()).entries())
        await owned.park([message], { state: states[i] as 'dead', delay: states[i] === 'waiting' ? LATER : null });
      await Promise.all(operators.map((operator, i) => operator.discard({ ids: [ids[i] as string] })));
      const { messages } = await owned.take();
      assert.deepEqual(idsOf(messages), ids.slice(2));
      await owned.settle(messages);
    }
  });

  describe('a removal behind the first row of a key', () => {
    for (const [name, remove] of Object.entries(REMOVALS)) {
      it(`leaves that alone while it is being sent: ${name}`, async () => {
        const owned = await run.owned();
        await owned.insert({}, {}, {});
        const messages = (await owned.ready()) as [OutboxMessage, OutboxMessage, OutboxMessage];
        const [first, second, last] = messages;
        await owned.park([first]);
        await owned.park([second], { state: 'blocked', delay: null });
        await owned.park([last], { state: 'dead', delay: null });
        await owned.settle((await owned.take()).messages);
        assert.equal((await owned.take(['k'])).messages[0]?.id, second.id);
        await remove(run, last, owned);
        await run.store.leases.giveBack(run.owner, owned.leases);
        await owned.acquire(run.store, 60_000);
        assert.deepEqual((await owned.due()).rows, []);
        assert.equal((await owned.take(['k'])).messages[0]?.id, second.id);
      });
    }
  });
}

/** On tables of a global order: the first row of all is woken, whatever its key. */
export function describeGlobalWake(run: StoreRun): void {
  const { describe, it } = run.runner;
  /** Parked in this order; each blocks. */
  const parked = async (
    owned: OwnedTransport,
    ...rows: [key: string | null, state: 'waiting' | 'blocked' | 'dead'][]
  ): Promise<OutboxMessage[]> => {
    await owned.insert(...rows.map(([key]) => ({ bucket: 0, key })));
    const messages = await owned.ready();
    for (const [i, message] of messages.entries()) {
      const state = rows[i]?.[1] as 'waiting';
      await owned.park([message], { state, delay: state === 'waiting' ? LATER : null, blocks: true });
    }
    return messages;
  };
  const dueIds = async (owned: OwnedTransport): Promise<(string | undefined)[]> => {
    const { rows } = await owned.due();
    const { messages } = await run.store.parked.take({
      ...{ owner: run.owner, transport: owned.transport, leases: owned.leases, due: rows, keys: [], perKey: 1 },
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
          const owned = await run.owned();
          const [dead, next] = await parked(owned, [key, 'dead'], ['b', 'blocked'], ['a', 'blocked']);
          await remove(run, dead as OutboxMessage, owned);
          assert.deepEqual(await dueIds(owned), [next?.id]);
        });

        it(`unless it waits for its next try, key ${key}: ${name}`, async () => {
          const owned = await run.owned();
          const [, dead] = await parked(owned, ['b', 'waiting'], [key, 'dead'], ['a', 'blocked']);
          await remove(run, dead as OutboxMessage, owned);
          assert.deepEqual(await dueIds(owned), []);
        });
      }
    }

    it('when a key before it is released', async () => {
      const owned = await run.owned();
      const [, next] = await parked(owned, ['a', 'dead'], ['b', 'blocked'], ['a', 'blocked']);
      assert.deepEqual(await run.operator.release('a', owned.transport), 1);
      assert.deepEqual(await dueIds(owned), [next?.id]);
    });

    it('when it waits for its next try and its own key is released, not another one', async () => {
      const owned = await run.owned();
      const [first] = await parked(owned, ['b', 'waiting'], ['a', 'blocked']);
      assert.deepEqual(await run.operator.release('a', owned.transport), 0);
      assert.deepEqual((await owned.due()).rows, []);
      assert.deepEqual(await run.operator.release('b', owned.transport), 0);
      assert.deepEqual(await dueIds(owned), [first?.id]);
    });

    it('also when nothing of the released key is there', async () => {
      const owned = await run.owned();
      const [first] = await parked(owned, ['b', 'blocked']);
      assert.deepEqual(await run.operator.release('none', owned.transport), 0);
      assert.deepEqual(await dueIds(owned), [first?.id]);
    });
  });
}
