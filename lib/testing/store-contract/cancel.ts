import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { settled, type Outcome, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;
const ROUNDS = 20;

/** What `changed` says of a message of several transports: none of them will publish it any more. */
export function describeCancel(run: StoreRun): void {
  const { describe, it } = run.runner;
  const both = async (): Promise<[OwnedTransport, OwnedTransport]> => [await run.owned(), await run.owned()];
  const all = (id: string, done = 1): Record<'changed' | 'tooLate' | 'notFound', Outcome> => ({
    changed: { done, changed: [id], tooLate: [], notFound: [] },
    tooLate: { done, changed: [], tooLate: [id], notFound: [] },
    notFound: { done: 0, changed: [], tooLate: [], notFound: [id] },
  });

  describe('cancel of what is ready', () => {
    it('O2, O5: is done where nobody leases its bucket, and too late where somebody does', async () => {
      const owned = await run.owned({ leased: false });
      const { transport } = owned;
      const ids = await owned.insert({ key: null, topic: 'a' }, { key: null }, { key: null, topic: 'a' });
      const [first, second, third] = ids as [string, string, string];
      assert.deepEqual((await run.operator.cancel({ ids: [first, second], transport, topic: 'a' })).changed, [first]);
      assert.deepEqual((await run.operator.cancel({ ids: [third] })).changed, [third]);
      await owned.acquire(run.store, 60_000);
      assert.deepEqual((await run.operator.cancel({ ids: [second] })).tooLate, [second]);
      await run.store.leases.giveBack(run.owner, owned.leases);
      assert.deepEqual((await run.operator.cancel({ ids: [second], transport })).changed, [second]);
      assert.deepEqual((await run.operator.cancel({ ids })).notFound, ids);
    });

    it('U3: finds it by id and key, leased or not', async () => {
      const owned = await run.owned();
      const bucket = run.bucketOf('cart-7');
      const ids = await owned.insert({ key: 'cart-7', bucket }, { key: 'cart-8', bucket });
      const [id, ofOther] = ids as [string, string];
      for (const transport of [owned.transport, undefined])
        for (const how of ['cancel', 'discard', 'requeue'] as const)
          assert.deepEqual(await run.operator[how]({ ids, key: 'cart-7', transport }), {
            done: 0,
            changed: [],
            tooLate: [id],
            notFound: [ofOther],
          });
      await run.store.leases.giveBack(run.owner, owned.leases);
      const cancel = (): Promise<Outcome> => run.operator.cancel({ ids, key: 'cart-7' });
      assert.deepEqual(await cancel(), { done: 1, changed: [id], tooLate: [], notFound: [ofOther] });
      assert.deepEqual((await cancel()).notFound, ids);
      assert.deepEqual(await owned.readyIds(), [ofOther]);
    });

    it('U3: never takes the age of an id for its message’s: one that was given long ago is found', async () => {
      const owned = await run.owned();
      const old = `00000000-0001-7${randomUUID().slice(15)}`;
      await owned.insert({}, { id: old }, {});
      assert.deepEqual(await run.operator.cancel({ ids: [old] }), all(old, 0).tooLate);
    });
  });

  describe('cancel of a message of several transports', () => {
    it('is too late while one of them has it ready or is sending it', async () => {
      const [one, two] = await both();
      const [id] = (await one.insert({ key: null, delay: LATER })) as [string];
      await two.insert({ id, key: null });
      const cancel = () => run.operator.cancel({ ids: [id] });
      assert.deepEqual(await cancel(), all(id).tooLate);
      await one.parked({ id, key: null });
      await two.park(await two.ready());
      assert.equal((await two.take()).messages.length, 1);
      assert.deepEqual(await cancel(), all(id).tooLate);
      await run.store.leases.giveBack(run.owner, two.leases);
      assert.deepEqual(await cancel(), all(id).changed);
      assert.deepEqual(await cancel(), all(id).notFound);
    });

    it('is done when the others have published it', async () => {
      const [one, two] = await both();
      const id = await one.parked({ key: null });
      await two.insert({ id, key: null });
      await two.settle(await two.ready());
      assert.deepEqual(await run.operator.cancel({ ids: [id] }), all(id).changed);
    });

    it('is of one of them alone when the filter names it', async () => {
      const [one, two] = await both();
      const [id] = (await one.insert({ delay: LATER })) as [string];
      await two.insert({ id });
      const { transport } = one;
      assert.deepEqual(await run.operator.cancel({ ids: [id], transport }), all(id).changed);
      assert.deepEqual(await run.operator.cancel({ ids: [id], transport }), all(id).notFound);
      assert.deepEqual(await two.readyIds(), [id]);
    });

    it('leaves a discarded dead letter of one of them done, whatever the others do', async () => {
      const [one, two] = await both();
      const id = await one.parked({ key: null }, { state: 'dead', delay: null });
      await two.insert({ id, key: null });
      assert.deepEqual(await run.operator.discard({ ids: [id] }), all(id).changed);
    });

    it('misses none that is parked meanwhile', async () => {
      const [one, two] = await both();
      for (let round = 0; round < ROUNDS; round++) {
        const [id] = (await one.insert({ key: null, delay: LATER })) as [string];
        await two.insert({ id, key: null });
        const [message] = await two.ready();
        const [report] = await Promise.all([
          run.operator.cancel({ ids: [id] }),
          two.park([message as NonNullable<typeof message>]),
        ]);
        const { messages } = await two.take();
        assert.deepEqual(report, messages.length === 0 ? all(id, 2).changed : all(id).tooLate);
        await run.store.ready.settle(two.transport, messages.map(settled), 'delete');
      }
    });
  });
}
