import assert from 'node:assert/strict';
import type { OwnedTransport, StoreRun } from './harness.js';
import type { NewMessage } from '../../outbox-message.js';
import type { ParkEntry } from '../../store/ready-store.js';

const LATER = 600_000;

/** Messages that wait. */
async function waiting(
  owned: OwnedTransport,
  park: Partial<ParkEntry>,
  ...fields: Partial<NewMessage>[]
): Promise<string[]> {
  const ids = await owned.insert(...fields);
  await owned.park(await owned.ready(), { state: 'waiting', attempts: 0, delay: LATER, blocks: false, ...park });
  return ids;
}

/** Part by part. @returns how many were hastened, and in how many parts */
async function hastenAll(
  owned: OwnedTransport,
  topics: readonly string[] | null,
  limit: number,
): Promise<[number, number]> {
  let [sum, parts] = [0, 0];
  for (let from: string | null = null; ; parts += 1) {
    const { hastened, next } = await owned.store.parked.hasten(owned.transport, owned.allBuckets, {
      topics,
      from,
      limit,
    });
    sum += hastened;
    if (next === null) return [sum, parts + 1];
    from = next;
  }
}

export function describeHasten(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('hasten', () => {
    it('makes due what waits without an attempt, of the given topics, part by part', async () => {
      const owned = await run.owned();
      const free = (topic: string) =>
        Array.from({ length: 7 }, (_, n) => ({ topic, key: `${topic}${n}`, bucket: n % 3 }));
      const ids = await waiting(owned, {}, ...free('back'));
      await waiting(owned, {}, ...free('away'));
      await waiting(owned, { attempts: 1 }, { topic: 'back', key: 'failed' });
      await owned.insert({ topic: 'back', key: 'scheduled', delay: LATER });
      assert.deepEqual((await owned.due()).rows, []);
      const [sum, parts] = await hastenAll(owned, ['back'], 3);
      assert.equal(sum, 7);
      assert.ok(parts >= 3 && parts < 30, String(parts));
      const { messages } = await owned.take();
      assert.deepEqual(messages.map(({ id }) => id).sort(), [...ids].sort());
      assert.deepEqual(await hastenAll(owned, null, 100), [7, 1]);
      assert.deepEqual(await hastenAll(owned, null, 100), [0, 1]);
      assert.deepEqual(await owned.store.parked.hasten(owned.transport, [], { topics: null, from: null, limit: 9 }), {
        hastened: 0,
        passed: 0,
        next: null,
      });
    });

    it('looks at none that is scheduled', async () => {
      const owned = await run.owned();
      const deliverAt = new Date(Date.now() + 60_000);
      await owned.insert(...Array.from({ length: 9 }, (_, n) => ({ deliverAt, key: `s${n}` })));
      await waiting(owned, {}, { key: 'waits' });
      assert.deepEqual(await hastenAll(owned, null, 3), [1, 1]);
    });
  });
}
