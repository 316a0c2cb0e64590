import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { compareSeq } from '../../outbox-message.js';
import { idsOf, parkEntry, settled, type StoreRun } from './harness.js';

export function describeReady(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('ready', () => {
    it('reads after each position, in order, within both limits', async () => {
      const owned = await run.owned();
      const ids = await owned.insert(...Array.from({ length: 12 }, (_, i) => ({ bucket: i % 2 })));
      const positions = [0, 1].map((bucket) => ({ bucket, after: '0' }));
      const page = await owned.read(positions, { perBucket: 2 });
      for (const bucket of [0, 1]) {
        const expected = ids.filter((_, i) => i % 2 === bucket).slice(0, 2);
        assert.deepEqual(idsOf(page.messages.filter((m) => m.bucket === bucket)), expected);
      }
      const limited = await owned.read(positions, { limit: 7 });
      assert.equal(limited.messages.length, 7);
      const all = await owned.ready();
      const after = all.filter((m) => m.bucket === 1)[2]?.seq as string;
      const rest = await owned.read([{ bucket: 1, after }]);
      assert.deepEqual(idsOf(rest.messages), ids.filter((_, i) => i % 2 === 1).slice(3));
    });

    it('reads all places of a range, and rows by their places', async () => {
      const owned = await run.owned();
      const ids = await owned.insert({}, {}, {}, { bucket: 2 }, {});
      const [first, second, third] = (await owned.ready())
        .filter(({ bucket }) => bucket === 1)
        .map(({ bucket, seq }) => ({ bucket, seq }));
      assert.ok(first && second && third);
      const { places } = await run.store.ready.sweep(owned.transport, [
        { bucket: 1, after: first.seq, upTo: third.seq },
        { bucket: 3, after: '0', upTo: third.seq },
      ]);
      assert.deepEqual(places, [second, third]);
      const { messages } = await run.store.ready.readPlaces(
        owned.transport,
        [third, { bucket: 1, seq: '1' }, first],
        undefined,
      );
      assert.deepEqual(idsOf(messages), [ids[0], ids[2]]);
      assert.deepEqual((await run.store.ready.sweep(owned.transport, [])).places, []);
    });

    it('does not show a transport another one’s messages', async () => {
      const [owned, foreign] = [await run.owned(), await run.owned()];
      await foreign.insert({});
      assert.deepEqual(await owned.ready(), []);
      assert.equal(
        (await run.store.ready.settle(owned.transport, (await foreign.ready()).map(settled), 'delete')).affected,
        0,
      );
      assert.equal((await foreign.ready()).length, 1);
    });

    it('says whether what was read is durable, and makes it so', async () => {
      const owned = await run.owned();
      await owned.insert({});
      await run.store.ready.flush();
      const { durable, session } = await owned.read([{ bucket: 1, after: '0' }]);
      if (run.harness.proof === 'snapshot') assert.equal(durable, true);
      assert.equal(typeof durable, 'boolean');
      assert.equal(run.store.ready.session, session);
      await run.store.ready.flush(session);
      // What another session showed may have died with its server.
      await assert.rejects(run.store.ready.flush(session + 1));
    });
  });
  if (run.harness.proof === 'snapshot') describeSnapshot(run);
  else describeProbe(run);
  describeSettle(run);
  describePark(run);
}

function describeSnapshot(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('snapshot', () => {
    it('lists the open transaction whose row may still appear, and not after it ended', async () => {
      const owned = await run.owned();
      const late = await run.harness.begin();
      await run.store.writer.insert(late.tx, [owned.message({ key: null })]); // with a key, a strict order gives it a later place
      const [visible] = await owned.insert({});
      const request = { transport: owned.transport, positions: [{ bucket: 1, after: '0' }], perBucket: 10, limit: 10 };
      const before = await run.store.ready.fetch(request);
      assert.deepEqual(idsOf(before.messages), [visible]);
      assert.ok(before.snapshot && before.snapshot.open.length > 0);
      const { fence } = await owned.settle(before.messages);
      assert.ok(fence !== undefined && BigInt(fence) >= BigInt(before.snapshot.xmin), 'newer than what was open');
      const range = { bucket: 1, after: '0', upTo: before.messages[0]?.seq as string };
      assert.deepEqual(await run.store.ready.sweep(owned.transport, [range]), { places: [], complete: true });
      await late.commit();
      const { places } = await run.store.ready.sweep(owned.transport, [range]);
      assert.equal(places.length, 1, 'behind the head that was read');
      const now = await run.store.ready.readPlaces(owned.transport, places, undefined);
      assert.equal(now.messages.length, 1);
      assert.ok(before.snapshot.open.some((xid) => !now.snapshot?.open.includes(xid)));
      const then = await run.store.ready.readPlaces(owned.transport, places, before.snapshot);
      assert.deepEqual(then.messages, [], 'committed after that snapshot');
      const found = await run.store.ready.readPlaces(owned.transport, places, now.snapshot);
      assert.equal(found.messages.length, 1);
    });
  });
}

function describeProbe(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('probe', () => {
    it('fails for a range with an uncommitted insert, and only for that', async () => {
      const owned = await run.owned();
      const late = await run.harness.begin();
      await run.store.writer.insert(late.tx, [owned.message({ key: null })]); // with a key, a strict order gives it a later place
      await owned.insert({}, { bucket: 2 });
      const messages = await owned.ready();
      const ranges = messages.map(({ bucket, seq }) => ({ bucket, after: '0', upTo: seq }));
      const probe = () => run.store.ready.probe?.(owned.transport, ranges);
      assert.deepEqual(
        (await probe())?.clean,
        ranges.map(({ bucket }) => bucket === 2),
      );
      await late.commit();
      const { clean, now } = (await probe()) ?? { clean: [], now: 0 };
      assert.deepEqual(
        clean,
        ranges.map(() => true),
      );
      const created = messages.map(({ createdAt }) => createdAt.getTime());
      assert.ok(now >= Math.max(...created) && now - Math.max(...created) < 60_000, 'the clock that dates the rows');
    });
  });
}

function describeSettle(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  describe('settle', () => {
    for (const onPublished of ['delete', 'archive'] as const) {
      it(`removes exactly these messages, once (${onPublished})`, async () => {
        const owned = await run.owned();
        const ids = await owned.insert({}, { bucket: 2 }, {});
        const ready = await owned.ready();
        const mine = ready.filter(({ id }) => id !== ids[1]);
        assert.equal((await owned.settle(mine, onPublished)).affected, 2);
        assert.equal((await owned.settle(mine, onPublished)).affected, 0);
        assert.deepEqual(await owned.readyIds(), [ids[1]]);
      });

      it(`leaves another message at that place alone (${onPublished})`, async () => {
        const owned = await run.owned();
        await owned.insert({});
        const [message] = await owned.ready();
        assert.ok(message);
        const report = await run.store.ready.settle(
          owned.transport,
          [{ ...settled(message), id: randomUUID() }],
          onPublished,
        );
        assert.equal(report.affected, 0);
        assert.equal((await owned.ready()).length, 1);
      });

      it(`finds a message that was parked while it was published, whatever became of it (${onPublished})`, async () => {
        const owned = await run.owned();
        await owned.insert({}, { key: 'b' }, { key: 'c' }, { key: null });
        const messages = await owned.ready();
        const states = ['waiting', 'dead', 'blocked', 'waiting'] as const;
        for (const [i, state] of states.entries()) await owned.park(messages.slice(i, i + 1), { state, delay: 60_000 });
        assert.equal((await owned.settle(messages, onPublished)).affected, 4);
        assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10), []);
        assert.equal((await owned.due()).nextIn, null);
      });
    }

    for (const where of ['ready', 'parked'] as const) {
      it(`archives a message once that is named twice (${where})`, async () => {
        const owned = await run.owned();
        await owned.insert({});
        const ready = await owned.ready();
        if (where === 'parked') await owned.park(ready);
        const messages = where === 'parked' ? (await owned.take()).messages : ready;
        while ((await run.store.cleaner.clean('archive', 0, 100)).removed > 0);
        assert.equal((await owned.settle([...messages, ...ready, ...messages], 'archive')).affected, 1);
        assert.equal((await run.store.cleaner.clean('archive', 0, 100)).removed, 1);
      });
    }

    inOrder('lets the key go on when a former owner’s success removes its first row', async () => {
      const owned = await run.owned();
      await owned.insert({}, {}, {});
      const messages = await owned.ready();
      await owned.park(messages.slice(0, 1), { state: 'dead', delay: null });
      await owned.park(messages.slice(1), { state: 'blocked', delay: null });
      assert.deepEqual((await owned.due()).rows, []);
      await owned.settle(messages.slice(0, 1));
      const taken = await owned.take();
      assert.deepEqual(
        idsOf(taken.messages),
        messages.slice(1).map(({ id }) => id),
      );
    });
  });
}

function describePark(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('park', () => {
    it('moves rows of held leases only, each once', async () => {
      const owned = await run.owned();
      await owned.insert({}, { bucket: 2 }, { bucket: 3 });
      const messages = await owned.ready();
      const entries = messages.map((message) => parkEntry(message));
      const held = owned.leases.filter(({ bucket }) => bucket !== 3);
      const stale = held.map((lease) => ({ ...lease, epoch: String(BigInt(lease.epoch) - 1n) }));
      assert.equal((await run.store.ready.park(run.owner, stale, entries)).affected, 0, 'an epoch of before');
      assert.equal((await run.store.ready.park(randomUUID(), held, entries)).affected, 0, 'somebody else');
      assert.equal((await owned.ready()).length, 3);
      assert.equal((await run.store.ready.park(run.owner, held, entries)).affected, 2);
      assert.equal((await run.store.ready.park(run.owner, held, entries)).affected, 0);
      assert.deepEqual(
        await owned.readyIds(),
        messages.filter(({ bucket }) => bucket === 3).map(({ id }) => id),
      );
    });

    it('keeps place, attempts and any error text', async () => {
      const owned = await run.owned();
      await owned.insert({}, { key: 'b' });
      const messages = await owned.ready();
      await owned.park(messages.slice(0, 1), { attempts: 3, error: 'a"\\{,}\u0000 NULL \u{1F4A5}' });
      await owned.park(messages.slice(1), { attempts: 4, error: null });
      const { messages: taken } = await owned.take();
      assert.deepEqual(
        taken
          .map(({ id, attempts, seq }) => [id, attempts, seq])
          .sort((a, b) => compareSeq(String(a[2]), String(b[2]))),
        messages.map(({ id, seq }, i) => [id, 3 + i, seq]),
      );
    });
  });
}
