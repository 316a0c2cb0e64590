import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { eventually, idsOf, type StoreRun } from './harness.js';

const AGES = 1_000_000_000; // older than anything here

export function describeCleaning(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  describe('clean', () => {
    it('removes archived messages of that age, at most so many', async () => {
      const owned = await run.owned();
      await owned.insert({}, {}, {});
      await owned.settle(await owned.ready(), 'archive');
      assert.equal((await run.store.cleaner.clean('archive', AGES, 100)).removed, 0);
      assert.equal((await run.store.cleaner.clean('archive', 0, 2)).removed, 2);
      while ((await run.store.cleaner.clean('archive', 0, 100)).removed > 0);
      assert.equal((await run.store.cleaner.clean('archive', 0, 100)).removed, 0);
    });

    inOrder('removes dead messages only, and lets their keys go on', async () => {
      const owned = await run.owned();
      await owned.insert({}, {}, { key: 'w' }, { delay: AGES }, { key: 'ready' });
      const ready = await owned.ready();
      await owned.park(ready.slice(0, 1), { state: 'dead', delay: null });
      await owned.park(ready.slice(1, 2), { state: 'blocked', delay: null });
      await owned.park(ready.slice(2, 3), { state: 'waiting', delay: AGES });
      assert.equal((await run.store.cleaner.clean('dead', AGES, 100)).removed, 0);
      while ((await run.store.cleaner.clean('dead', 0, 100)).removed > 0);
      assert.deepEqual(idsOf((await owned.take()).messages), [ready[1]?.id]);
      const stats = await owned.stats();
      assert.deepEqual([stats.ready, stats.scheduled, stats.waiting, stats.blocked, stats.dead], [1, 1, 1, 1, 0]);
    });

    it('keeps a death of which nobody was told, when asked to', async () => {
      const owned = await run.owned();
      await owned.insert({ key: null }, { key: 'recheck' });
      await owned.park(await owned.ready(), { state: 'dead', delay: null });
      const letters = await run.store.parked.unannouncedDead([owned.transport], 10);
      const told = letters.find(({ message }) => message.key === null);
      await run.store.parked.markAnnounced(told === undefined ? [] : [told]);
      while ((await run.store.cleaner.clean('announced', 0, 100)).removed > 0);
      const left = async () => (await owned.stats()).dead;
      assert.equal(await left(), 1);
      assert.deepEqual(
        (await run.store.parked.unannouncedDead([owned.transport], 10)).map(({ message }) => message.key),
        ['recheck'],
      );
      while ((await run.store.cleaner.clean('dead', 0, 100)).removed > 0);
      assert.equal(await left(), 0);
    });

    it('keeps a dedup key while its message is not settled', async () => {
      const owned = await run.owned();
      const dedupKeys = [randomUUID(), randomUUID()];
      await owned.insert({ dedupKey: dedupKeys[0] as string }, { dedupKey: dedupKeys[1] as string, delay: 0 });
      const duplicates = async () => {
        const messages = dedupKeys.map((dedupKey) => owned.message({ dedupKey }));
        const transaction = await run.harness.begin();
        const report = await run.store.writer.insert(transaction.tx, messages);
        await transaction.rollback();
        return [...report.duplicates.keys()];
      };
      const clean = async () => {
        while ((await run.store.cleaner.clean('dedup', 0, 100)).looked === 100);
        return duplicates();
      };
      assert.deepEqual(await clean(), [0, 1]);
      await owned.settle(await owned.ready());
      assert.deepEqual(await run.store.cleaner.clean('dedup', AGES, 100), { removed: 0, looked: 0 });
      assert.deepEqual(await clean(), [1]);
      await owned.settle((await owned.take()).messages);
      assert.deepEqual(await eventually('clean', clean), []);
    });
  });
}

export function describeSetup(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { settings } = run.harness;
  describe('setup', () => {
    it('accepts what it made, made twice', async () => {
      await run.store.setup.create(settings);
      await run.store.setup.check(settings);
    });

    it('names every setting that differs, with both values', async () => {
      const ordering = settings.ordering === 'none' ? 'key' : 'none';
      const buckets = settings.buckets + 1;
      const error = await run.store.setup.check({ ...settings, buckets, ordering }).then(
        () => assert.fail('It was accepted.'),
        ({ message }: Error) => message,
      );
      for (const word of ['buckets', settings.buckets, buckets, 'ordering', settings.ordering, ordering]) {
        assert.match(error, new RegExp(`\\b${word}\\b`));
      }
      assert.doesNotMatch(error, /coordination/);
    });

    it('numbers transports once, whoever registers them', async () => {
      const names = Array.from({ length: 4 }, () => `t-${randomBytes(6).toString('hex')}`);
      const all = await Promise.all([run.store, run.other].map((store) => store.setup.transports(names, 'default')));
      const numbers = all.map((known) => names.map((name) => known.get(name)));
      assert.deepEqual(numbers[0], numbers[1]);
      const first = numbers[0]?.[0] as number;
      assert.equal(new Set(numbers[0]).size, 4);
      assert.equal(
        (await run.other.setup.transports([names[0] as string, 'another'], 'default')).get(names[0] as string),
        first,
      );
      const leases = await run.store.leases.acquire({
        owner: randomUUID(),
        leaseMs: 1,
        transport: first,
        limit: 10_000,
      });
      assert.equal(leases.length, settings.buckets);
    });
  });
}
