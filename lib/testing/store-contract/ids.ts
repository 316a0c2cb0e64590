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
      it(`are each in one list of the answer: ${action}`, async () => {
        const owned = await run.owned();
        const sending = await owned.parked({ key: null });
        await owned.take();
        const scheduled = await owned.insert({ key: null, delay: LATER }, { key: null, delay: LATER });
        const dead: string[] = [];
        for (let i = 0; i < 5; i += 1) dead.push(await owned.parked({ key: null }, { state: 'dead', delay: null }));
        const [ready] = (await owned.insert({ key: null })) as [string];
        const nowhere = randomUUID();
        const ids = [...scheduled, nowhere, ...dead, sending, ready];
        const { changed, tooLate, notFound } = await run.operator[action]({ ids: [...ids, nowhere, ready] });
        assert.deepEqual([...changed, ...tooLate, ...notFound].sort(), [...ids].sort());
        assert.deepEqual(notFound, [nowhere]);
        assert.deepEqual(new Set(changed), new Set(action === 'cancel' ? [...scheduled, ...dead] : dead));
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
          const report = await run.operator[action]({ ids, transport, ...one, ...other });
          assert.deepEqual(report, { done: 0, changed: [], tooLate: [], notFound: ids });
        }
        const named = [dead, ready, scheduled]; // the other one has no key
        const { changed, tooLate, notFound } = await run.operator[action]({ ids, transport, ...one });
        assert.deepEqual([...changed, ...tooLate].sort(), [...named].sort());
        assert.deepEqual([notFound, changed.includes(dead), tooLate.includes(ready)], [[sending], true, true]);
      });
    }
  });
}
