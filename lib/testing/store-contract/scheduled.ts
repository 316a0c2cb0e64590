import assert from 'node:assert/strict';
import { idsOf, type OwnedTransport, type StoreRun } from './harness.js';
import type { NewMessage } from '../../outbox-message.js';
import type { TakeResult } from '../../store/parked-store.js';

const LATER = 3_600_000;
const BLOCKED = { state: 'blocked', delay: null } as const;
const at = (ms: number): Partial<NewMessage> => ({ deliverAt: new Date(ms) });

/** The place that a scheduled message takes when it falls due. */
export function describeScheduled(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('a scheduled message that falls due', () => {
    for (const [state, delay] of [
      ['waiting', LATER],
      ['dead', null],
    ] as const) {
      it(`goes behind all that is there when its key is blocked: ${state}`, async () => {
        const owned = await run.owned();
        const [before] = await owned.insert({ delay: 0 });
        const first = await owned.parked({}, { state, delay });
        const parked = await owned.parked({}, BLOCKED);
        const [after] = await owned.insert({ delay: 0 });
        const [ready] = await owned.insert({});
        assert.deepEqual((await owned.take()).messages, []);
        assert.deepEqual((await owned.due()).rows, []);
        await owned.park(await owned.ready(), BLOCKED);
        const later = await owned.parked({}, BLOCKED);
        assert.deepEqual((await owned.take(['k'])).messages, []);
        assert.deepEqual((await run.operator.discard({ ids: [first] })).changed, [first]);
        const { messages } = await owned.take(['k']);
        assert.deepEqual(idsOf(messages), [parked, ready, before, after, later]);
        assert.equal((await owned.settle(messages)).affected, 5);
      });
    }

    it('goes on past a dead one that does not block', async () => {
      const owned = await run.owned();
      await owned.parked({}, { state: 'dead', delay: null, blocks: false });
      const [scheduled] = await owned.insert({ delay: 0 });
      assert.deepEqual(idsOf((await owned.take()).messages), [scheduled]);
    });

    it('goes in the order of the times, not of the enqueues, and each key by itself', async () => {
      const owned = await run.owned();
      const ids = await owned.insert(at(3_000), at(1_000), at(2_000), { ...at(4_000), key: 'other' });
      const [last, first, second, other] = ids;
      const { messages } = await owned.take();
      assert.deepEqual(new Set(idsOf(messages)), new Set([first, other]));
      await owned.settle(messages);
      assert.deepEqual(idsOf((await owned.take(['k'])).messages), [second, last]);
    });

    it('keeps its place when it fails: the next that falls due goes behind it', async () => {
      const owned = await run.owned();
      const [first] = await owned.insert({ delay: 0 });
      const { messages } = await owned.take();
      assert.deepEqual(idsOf(messages), [first]);
      const [second] = await owned.insert({ delay: 0 });
      assert.deepEqual((await owned.take()).messages, []);
      await owned.repark(messages, { error: 'no' });
      const again = (await owned.take(['k'])).messages;
      assert.deepEqual(idsOf(again), [first]);
      await owned.settle(again);
      assert.deepEqual(idsOf((await owned.take(['k'])).messages), [second]);
    });
  });
}

/** On tables of no order: a key holds nobody back. */
export function describeUnordered(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('no order', () => {
    it('takes all that is due of a key at once, whatever failed before it', async () => {
      const owned = await run.owned();
      const dead = await owned.parked({}, { state: 'dead', delay: null });
      await owned.parked({}, { state: 'waiting', delay: LATER });
      const failed = await owned.parked({}, { state: 'waiting' });
      const scheduled = await owned.insert(at(2_000), at(1_000));
      const { rows } = await owned.due();
      assert.deepEqual(new Set(rows.map(({ key }) => key)), new Set([null]));
      const { messages, clear } = await owned.take();
      assert.deepEqual([new Set(idsOf(messages)), clear], [new Set([...scheduled, failed]), []]);
      assert.deepEqual((await run.operator.requeue({ ids: [dead] })).changed, [dead]);
      assert.deepEqual(idsOf((await owned.take()).messages), [dead]);
      assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10), []);
    });
  });
}

/** On tables of a global order: everything is in bucket 0, and in one line. */
export function describeGlobalOrder(run: StoreRun): void {
  const { describe, it } = run.runner;
  const insert = async (owned: OwnedTransport, fields: Partial<NewMessage>): Promise<string> =>
    (await owned.insert({ bucket: 0, ...fields }))[0] as string;
  const take = async (owned: OwnedTransport, perKey = 100): Promise<TakeResult> =>
    run.store.parked.take({
      owner: run.owner,
      transport: owned.transport,
      leases: owned.leases,
      due: (await owned.due()).rows,
      keys: [{ bucket: 0, key: '' }],
      perKey,
    });

  describe('a global order', () => {
    for (const [state, delay] of [
      ['waiting', LATER],
      ['dead', null],
    ] as const) {
      it(`nothing goes past a row that blocks, with a key or without: ${state}`, async () => {
        const owned = await run.owned();
        const before = await insert(owned, { delay: 0, key: 'before' });
        const failed = await owned.parked({ bucket: 0, key: null }, { state, delay, blocks: true });
        const keyed = await owned.parked({ bucket: 0, key: 'a' }, { state: 'waiting', delay: 0 });
        const keyless = await owned.parked({ bucket: 0, key: null }, { state: 'waiting', delay: 0, blocks: true });
        const after = await insert(owned, { delay: 0, key: null });
        const first = await take(owned);
        assert.deepEqual([first.messages, first.clear], [[], []]);
        assert.deepEqual((await owned.due()).rows, []);
        assert.deepEqual((await run.operator.discard({ ids: [failed] })).changed, [failed]);
        const { messages } = await take(owned);
        assert.deepEqual(idsOf(messages), [keyed, keyless, before, after]);
        assert.deepEqual((await take(owned)).messages, [], 'one unit at a time');
        await owned.settle(messages);
        assert.deepEqual((await take(owned)).clear, [{ bucket: 0, key: '' }]);
      });
    }

    it('messages that were requeued go in their old order, one behind the other', async () => {
      const owned = await run.owned();
      const dead = { state: 'dead', delay: null, blocks: false } as const;
      const ids = [
        await owned.parked({ bucket: 0, key: null }, dead),
        await owned.parked({ bucket: 0, key: 'a' }, dead),
        await owned.parked({ bucket: 0, key: null }, dead),
      ];
      assert.equal((await run.operator.requeue({ ids })).done, 3);
      const first = await take(owned);
      assert.deepEqual(idsOf(first.messages), ids.slice(0, 1));
      await owned.repark(first.messages, { blocks: true, delay: LATER, error: 'no' });
      assert.deepEqual((await take(owned)).messages, []);
    });

    it('is held by any blocking row, and by one that is due', async () => {
      const owned = await run.owned();
      const isHeld = async (): Promise<boolean> =>
        (await run.store.parked.blockedAmong(owned.transport, [{ bucket: 0, key: '' }])).length > 0;
      await insert(owned, { delay: LATER });
      assert.equal(await isHeld(), false);
      const due = await insert(owned, { delay: 0, key: null });
      assert.equal(await isHeld(), true);
      const { messages } = await take(owned);
      assert.deepEqual(idsOf(messages), [due]);
      assert.equal(await isHeld(), true);
      await owned.settle(messages);
      assert.equal(await isHeld(), false);
      await owned.parked({ bucket: 0, key: null }, { state: 'dead', delay: null, blocks: true });
      assert.equal(await isHeld(), true);
    });
  });
}
