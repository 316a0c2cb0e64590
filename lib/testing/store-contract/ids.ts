import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { StoreRun } from './harness.js';

const LATER = 3_600_000;
const ACTIONS = ['requeue', 'discard', 'cancel'] as const;

/** Each id that an operator names is in the answer, once. */
export function describeNamedIds(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('named ids', () => {
    for (const action of ACTIONS) {
      for (const limit of [1, 2, 3, 100]) {
        it(`are each in one list of the answer: ${action}, at most ${limit}`, async () => {
          const owned = await run.owned();
          const sending = await owned.parked({ key: null });
          await owned.take();
          const scheduled = await owned.insert({ key: null, delay: LATER }, { key: null, delay: LATER });
          const dead: string[] = [];
          for (let i = 0; i < 5; i += 1) dead.push(await owned.parked({ key: null }, { state: 'dead', delay: null }));
          const [ready] = (await owned.insert({ key: null })) as [string];
          const nowhere = randomUUID();
          const ids = [...scheduled, nowhere, ...dead, sending, ready];
          const { done, tooLate, notFound } = await run.other.admin[action]({ ids: [...ids, nowhere, ready], limit });
          assert.deepEqual([...done, ...tooLate, ...notFound].sort(), [...ids].sort());
          assert.deepEqual(notFound, [nowhere]);
          assert.ok(done.length <= limit);
          const changeable = action === 'cancel' ? [...scheduled, ...dead] : dead;
          assert.ok(done.every((id) => changeable.includes(id)));
          if (limit === 100) assert.deepEqual(new Set(done), new Set(changeable));
        });
      }

      it(`use up the limit also where they are being sent: ${action}`, async () => {
        const owned = await run.owned();
        const ids = [await owned.parked({ key: null })];
        await owned.take();
        for (let i = 0; i < 2; i += 1) ids.push(await owned.parked({ key: null }, { state: 'dead', delay: null }));
        const [sending, first, second] = ids as [string, string, string];
        const report = await run.other.admin[action]({ ids: [...ids].reverse(), limit: 2 });
        assert.deepEqual(report, { done: [first], tooLate: [second, sending], notFound: [], left: 1 });
      });

      it(`are not found where the other conditions name something else: ${action}`, async () => {
        const owned = await run.owned();
        const one = { key: 'one', topic: 'one', type: 'one' } as const;
        const placed = { ...one, bucket: run.bucketOf(one.key) };
        const dead = await owned.parked(placed, { state: 'dead', delay: null, blocks: false });
        const sending = await owned.parked({ ...placed, key: null });
        await owned.take();
        const [ready, scheduled] = (await owned.insert(placed, { ...placed, delay: LATER })) as [string, string];
        const ids = [dead, sending, ready, scheduled];
        const { transport } = owned;
        for (const other of [{ key: 'two' }, { topic: 'two' }, { type: 'two' }, { transport: transport + 1_000 }]) {
          const report = await run.other.admin[action]({ ids, transport, ...one, ...other, limit: 10 });
          assert.deepEqual(report, { done: [], tooLate: [], notFound: ids, left: 0 });
        }
        const named = [dead, ready, scheduled]; // the other one has no key
        const { done, tooLate, notFound } = await run.other.admin[action]({ ids, transport, ...one, limit: 10 });
        assert.deepEqual([...done, ...tooLate].sort(), [...named].sort());
        assert.deepEqual([notFound, done.includes(dead), tooLate.includes(ready)], [[sending], true, true]);
      });
    }
  });
}
