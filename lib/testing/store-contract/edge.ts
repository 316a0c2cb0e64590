import assert from 'node:assert/strict';
import { compareSeq } from '../../outbox-message.js';
import type { StoreRun } from './harness.js';

/** A store without `lowest` leaves it to `fetch`. */
export function describeEdge(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('the beginning of a bucket', () => {
    it('is the lowest row of a range, as of the snapshot that comes with it', async () => {
      const owned = await run.owned();
      await owned.insert({}, {}, { bucket: 2 }, {});
      const messages = await owned.ready();
      const seqs = messages.filter(({ bucket }) => bucket === 1).map(({ seq }) => seq);
      const upTo = messages.reduce((a, { seq }) => (compareSeq(a, seq) < 0 ? seq : a), '0');
      const ranges = [
        { bucket: 1, after: seqs[0] as string, upTo },
        { bucket: 2, after: '0', upTo },
        { bucket: 3, after: '0', upTo },
      ];
      const late = await run.harness.begin();
      await run.store.writer.insert(late.tx, [owned.message({ key: null })]);
      await owned.insert({ bucket: 3 }); // or no snapshot would list the one that is open
      const looked = await run.store.ready.lowest?.(owned.transport, ranges, 10_000);
      if (looked === undefined) return late.rollback();
      const second = messages.find(({ bucket }) => bucket === 2);
      assert.deepEqual(
        [...looked.places].sort((a, b) => a.bucket - b.bucket),
        [
          { bucket: 1, seq: seqs[1] },
          { bucket: 2, seq: second?.seq },
        ],
      );
      await late.commit();
      const after = await run.store.ready.lowest?.(owned.transport, ranges, 10_000);
      assert.equal(looked.snapshot === undefined, run.harness.proof === 'probe');
      if (looked.snapshot === undefined) return;
      assert.ok(looked.snapshot.open.some((id) => after?.snapshot?.open.includes(id) === false));
    });

    it('is not above the last number, behind which an id of our own was assigned', async () => {
      const owned = await run.owned();
      await owned.insert({});
      const late = await run.harness.begin();
      await run.store.writer.insert(late.tx, [owned.message({ key: null })]);
      const edge = await run.store.ready.edge?.();
      if (edge === undefined) return late.rollback();
      assert.ok(edge.source?.last !== undefined);
      const { snapshot } = (await run.store.ready.lowest?.(owned.transport, [], 10_000)) ?? {};
      assert.ok(snapshot && BigInt(snapshot.xmax) > BigInt(edge.fence), 'it has ended');
      assert.ok(
        snapshot.open.some((id) => BigInt(id) < BigInt(edge.fence)),
        'older than what is open',
      );
      assert.ok(!snapshot.open.includes(edge.fence));
      await late.commit();
      const seqs = (await owned.ready()).map(({ seq }) => seq);
      const { last } = edge.source;
      assert.ok(seqs.length === 2 && seqs.every((seq) => compareSeq(seq, last as string) <= 0));
      await owned.insert({});
      const [highest] = (await owned.ready()).map(({ seq }) => seq).sort((a, b) => compareSeq(b, a));
      assert.ok(compareSeq(highest as string, last as string) > 0);
    });

    it('is read from up to a number, without what is above it, also in a limited time', async () => {
      if (run.store.ready.edge === undefined) return;
      const owned = await run.owned();
      await owned.insert({}, {}, { bucket: 2 }, {}, {});
      const [first, ...rest] = (await owned.ready()).filter(({ bucket }) => bucket === 1).map(({ seq }) => seq);
      const [, last] = rest;
      const positions = [
        { bucket: 1, after: first as string, upTo: last },
        { bucket: 2, after: '0', upTo: '0' },
      ];
      const request = { transport: owned.transport, positions, perBucket: 10, limit: 10 };
      for (const within of [undefined, 10_000]) {
        const { messages, snapshot } = await run.store.ready.fetch({ ...request, within });
        assert.deepEqual(
          messages.map(({ bucket, seq }) => ({ bucket, seq })),
          rest.slice(0, 2).map((seq) => ({ bucket: 1, seq })),
        );
        assert.ok(snapshot !== undefined);
      }
      const toTheEnd = [{ bucket: 1, after: first as string }];
      assert.equal((await run.store.ready.fetch({ ...request, positions: toTheEnd })).messages.length, rest.length);
    });
  });
}
