import { BatchWriter } from '../../../../lib/relay/settle/batch-writer.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { gate, turn } from '../../../support/transport-relay.js';

/** Each item counts for as many bytes as it says. */
function writer(write: (batch: readonly number[]) => Promise<void>, items = 100, bytes = 1_000) {
  const clock = new FakeClock();
  const failures: number[] = [];
  return {
    clock,
    failures,
    writer: new BatchWriter<number>(
      clock,
      { items, bytes, bytesOf: Number, orderOf: () => undefined, strip: (item) => item },
      write,
      (_, retryIn) => failures.push(retryIn),
    ),
  };
}

describe('the batch writer', () => {
  it('writes at once what comes together, and during a write what comes meanwhile', async () => {
    const batches: number[][] = [];
    let writing = gate();
    const { writer: under } = writer(async (batch) => {
      batches.push([...batch]);
      await writing.opened;
    });
    under.add(1);
    under.add(2);
    await turn();
    for (const item of [3, 4, 5]) under.add(item);
    const first = writing;
    writing = gate();
    first.open();
    await turn();
    expect(batches).toEqual([
      [1, 2],
      [3, 4, 5],
    ]);
    writing.open();
    await under.quiet();
    expect(under.active).toBeUndefined();
    expect(under.writing).toBeUndefined();
  });

  it('ends a batch with the item that reaches its bytes; one alone may be larger', async () => {
    const batches: number[][] = [];
    const { writer: under } = writer(async (batch) => void batches.push([...batch]));
    for (const size of [400, 400, 400, 5_000, 10, 990, 1]) under.add(size);
    await under.quiet();
    expect(batches).toEqual([[400, 400, 400], [5_000], [10, 990], [1]]);
  });

  it('writes half of what failed, in order, until that works, and twice as much with each success', async () => {
    const tries: number[] = [];
    const written: number[] = [];
    const { writer: under, clock } = writer(async (batch) => {
      tries.push(batch.length);
      if (batch.length > 12) throw new Error('takes too long');
      written.push(...batch);
    });
    const all = Array.from({ length: 100 }, (_, i) => i / 100);
    for (const item of all) under.add(item);
    const quiet = under.quiet();
    for (let i = 0; i < 20; i += 1) await clock.advance(1_000);
    await quiet;
    expect(tries.slice(0, 7)).toEqual([100, 50, 25, 12, 24, 12, 24]);
    expect(written).toEqual(all);
  });

  it('repeats what fails, in front of what came meanwhile, slower each time', async () => {
    const written: number[] = [];
    let failing = 3;
    const {
      writer: under,
      clock,
      failures,
    } = writer(async (batch) => {
      if (failing-- > 0) throw new Error('away');
      written.push(...batch);
    });
    under.add(1);
    await turn();
    under.add(2);
    const quiet = under.quiet();
    await clock.advance(99);
    expect(failures).toEqual([100]);
    await clock.advance(1);
    await clock.advance(200);
    await clock.advance(400);
    await quiet;
    expect(failures).toEqual([100, 200, 400]);
    expect(written).toEqual([1, 2]);
  });

  it('is quiet when all that was there is written, also when more comes all the time', async () => {
    const { writer: under } = writer(async () => {
      under.add(0);
      await turn();
    });
    under.add(1);
    let quiet = false;
    void under.quiet().then(() => (quiet = true));
    for (let i = 0; i < 5; i += 1) await turn();
    expect(quiet).toBe(true);
    under.stop();
  });

  it('gives up at once when it is stopped between two tries', async () => {
    const { writer: under, clock } = writer(() => Promise.reject(new Error('away')));
    under.add(1);
    await turn();
    const quiet = under.quiet();
    under.stop();
    await quiet;
    expect(clock.pending).toBe(0);
    under.add(2);
    await under.quiet();
    expect(under.active).toBeUndefined();
  });
});
