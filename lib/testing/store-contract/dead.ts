import assert from 'node:assert/strict';
import type { DeadLetter } from '../../store/parked-store.js';
import { eventually, type OwnedTransport, type StoreRun } from './harness.js';

export function describeDead(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  async function dieAgain(owned: OwnedTransport, id: string): Promise<void> {
    assert.deepEqual((await run.operator.requeue({ ids: [id] })).changed, [id]);
    const { messages } = await owned.take();
    assert.equal(messages[0]?.attempts, 0);
    assert.equal(await owned.repark(messages, { state: 'dead', delay: null }), 1);
  }
  describe('dead', () => {
    it('is announced until marked, once per death', async () => {
      const owned = await run.owned();
      const id = await owned.parked(
        { payload: Buffer.from([0, 255]) },
        { state: 'dead', delay: null, attempts: 9, error: 'no' },
      );
      const before = Date.now();
      const [letter] = await run.store.parked.unannouncedDead([owned.transport], 10);
      assert.ok(letter);
      assert.deepEqual(
        [letter.message.id, letter.transport, letter.error, letter.message.attempts],
        [id, owned.transport, 'no', 9],
      );
      assert.deepEqual(letter.message.payload, Buffer.from([0, 255]));
      assert.ok(Math.abs(letter.diedAt.getTime() - before) < 600_000);
      assert.deepEqual(await run.store.parked.unannouncedDead([owned.transport + 1000], 10), []);
      await run.store.parked.markAnnounced([letter]);
      assert.deepEqual(await run.store.parked.unannouncedDead([owned.transport], 10), []);
      await dieAgain(owned, id);
      assert.equal((await run.store.parked.unannouncedDead([owned.transport], 10)).length, 1);
    });

    it('is announced again when it died a second time before the first was marked', async () => {
      const owned = await run.owned();
      const id = await owned.parked({}, { state: 'dead', delay: null });
      const first = await run.store.parked.unannouncedDead([owned.transport], 10);
      await dieAgain(owned, id);
      await run.store.parked.markAnnounced(first);
      const second = await run.store.parked.unannouncedDead([owned.transport], 10);
      assert.deepEqual(
        second.map(({ message, parkedId }) => [message.id, parkedId]),
        [[id, first[0]?.parkedId]],
      );
      await run.store.parked.markAnnounced([...first, ...second]);
      assert.deepEqual(await run.store.parked.unannouncedDead([owned.transport], 10), []);
    });

    it('is found page by page, also those that died together', async () => {
      const ownedTransports = [await run.owned(), await run.owned()] as const;
      const ids = [];
      for (const owned of ownedTransports) {
        ids.push(...(await owned.insert({ key: 'a' }, { key: 'b' }, { key: 'c' })));
        await owned.park(await owned.ready(), { state: 'dead', delay: null });
      }
      const [one, two] = ownedTransports.map(({ transport }) => transport) as [number, number];
      const pages: string[][] = [];
      for (let after: DeadLetter | undefined; ;) {
        const page = await run.store.parked.unannouncedDead(after?.transport === two ? [two] : [one, two], 2, after);
        if (page.length === 0) break;
        after = page.at(-1);
        pages.push(page.map(({ message }) => message.id));
      }
      assert.deepEqual(
        pages.map(({ length }) => length),
        [2, 2, 2],
      );
      assert.deepEqual(pages.flat().slice(0, 3).sort(), ids.slice(0, 3).sort());
      assert.deepEqual(pages.flat().slice(3).sort(), ids.slice(3).sort());
    });

    it('holds nobody when it does not block', async () => {
      const owned = await run.owned();
      await owned.parked({}, { state: 'dead', delay: null, blocks: false });
      assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10), []);
      assert.deepEqual((await owned.take(['k'])).clear, [{ bucket: 1, key: 'k' }]);
    });

    inOrder('lists blocking keys one by one, however many rows they have', async () => {
      const owned = await run.owned();
      for (const name of ['a', 'b', 'c']) {
        await owned.insert(...Array.from({ length: 5 }, () => ({ key: name })));
      }
      const messages = await owned.ready();
      await owned.park(messages, { state: 'blocked', delay: null });
      const keys = await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 2);
      assert.equal(keys.length, 2);
      const all = await eventually('all keys', () =>
        run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10),
      );
      assert.deepEqual(all.map(({ key: name, ready }) => [name, ready]).sort(), [
        ['a', true],
        ['b', true],
        ['c', true],
      ]);
    });

    inOrder('lists blocking keys page by page, whatever they are made of', async () => {
      const owned = await run.owned();
      const names = ['\u0001', ' ', 'A', 'a', 'a\u0001', 'a ', 'aa', 'b', 'é', '一', '💥'];
      await owned.insert(...names.flatMap((name) => [1, 3].map((bucket) => ({ key: name, bucket }))));
      await owned.park(await owned.ready(), { state: 'blocked', delay: null });
      const after = new Map<number, string>();
      const seen: string[] = [];
      for (let page: { bucket: number; key: string; ready: boolean }[] | undefined; page?.length !== 0;) {
        page = await run.store.parked.blockingKeys(owned.transport, [1, 2, 3], 5, after);
        assert.ok(page.length <= 5 && seen.length <= 2 * names.length);
        for (const { bucket, key, ready } of page) {
          assert.ok(ready);
          seen.push(`${bucket} ${key}`);
          after.set(bucket, key);
        }
      }
      const all = [1, 3].flatMap((bucket) => names.map((name) => `${bucket} ${name}`));
      assert.deepEqual(seen.sort(), all.sort());
    });
  });
}
