import assert from 'node:assert/strict';
import { compareSeq } from '../../outbox-message.js';
import type { StoreRun } from './harness.js';

/** What a bucket that is read from its beginning needs, where reads return snapshots. */
export function describeFence(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('a read from the beginning of a bucket', () => {
    it('tells an id of our own that was assigned behind the last number, where it is asked for', async () => {
      const owned = await run.owned();
      await owned.insert({});
      const late = await run.harness.begin();
      await run.store.writer.insert(late.tx, [owned.message({ key: null })]);
      const request = { transport: owned.transport, positions: [], perBucket: 10, limit: 10 };
      const { fence, source } = await run.store.ready.fetch({ ...request, asksFence: true });
      assert.ok(fence !== undefined && source?.last !== undefined);
      const { snapshot, fence: none } = await run.store.ready.fetch(request);
      assert.equal(none, undefined);
      assert.ok(snapshot && BigInt(snapshot.xmax) > BigInt(fence) && !snapshot.open.includes(fence), 'it has ended');
      assert.ok(
        snapshot.open.some((id) => BigInt(id) < BigInt(fence)),
        'younger than what is open',
      );
      await late.commit();
      const seqs = (await owned.ready()).map(({ seq }) => seq);
      const { last } = source;
      assert.ok(seqs.length === 2 && seqs.every((seq) => compareSeq(seq, last) <= 0));
      await owned.insert({});
      const [highest] = (await owned.ready()).map(({ seq }) => seq).sort((a, b) => compareSeq(b, a));
      assert.ok(compareSeq(highest as string, last) > 0);
    });

    it('goes up to a number, without what is above it, also in a limited time', async () => {
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
