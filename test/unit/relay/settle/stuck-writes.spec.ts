import { BatchWriter } from '../../../../lib/relay/settle/batch-writer.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { turn } from '../../../support/transport-relay.js';

class Own extends Error {
  readonly code = 'XX001'; // a damaged row
}
class TooLong extends Error {
  readonly code = '57014'; // a cancelled statement
}

/** Items of one letter, as `a1` and `a2`, are written in their order; those in capitals in any. */
function writer(write: (batch: readonly string[]) => void | Promise<void>) {
  const clock = new FakeClock();
  const failures: number[] = [];
  const times: number[] = [];
  const under = new BatchWriter<string>(
    clock,
    {
      items: 100,
      bytes: 1_000,
      bytesOf: () => 1,
      orderOf: (item) => (/^[a-z]/.test(item) ? item[0] : undefined),
      strip: (item) => `${item.replace('*', '')}*`,
    },
    async (batch) => write(batch),
    (_, retryIn) => {
      failures.push(retryIn);
      times.push(clock.elapsed);
    },
  );
  return { clock, failures, times, under };
}

/** Refuses every write with one of `bad` in it. */
function refusing(...bad: string[]) {
  const refused = new Set(bad);
  const written: string[] = [];
  const tries: number[] = [];
  const made = writer((batch) => {
    tries.push(batch.length);
    if (batch.some((item) => refused.has(item.replace('*', '')))) throw new Own('this one');
    written.push(...batch);
  });
  const add = (...items: string[]): void => {
    for (const item of items) made.under.add(item);
  };
  return { ...made, refused, written, tries, add };
}

describe('a write that fails for one item', () => {
  it('holds up no other: it is found in halves, without waiting, and told once', async () => {
    const { under, add, written, tries, failures, clock } = refusing('A');
    add('B', 'C', 'A', 'D', 'E', 'F', 'G', 'H');
    await under.quiet();
    expect(written).toEqual(['B', 'C', 'D', 'E', 'F', 'G', 'H']);
    expect(tries.slice(0, 5)).toEqual([8, 4, 2, 4, 2]);
    expect([failures, clock.elapsed]).toEqual([[1_000], 0]);
    expect([under.quarantined, under.waiting]).toEqual([1, ['A*']]);
    under.stop();
    expect(clock.pending).toBe(0);
  });

  it('is tried again by itself, later each time, until it can be written', async () => {
    const { under, add, refused, written, tries, failures, clock } = refusing('A');
    add('A');
    await under.quiet();
    for (let i = 0; i < 8; i += 1) await clock.advance(failures.at(-1) as number);
    expect(failures).toEqual([1, 2, 4, 8, 16, 30, 30, 30, 30].map((seconds) => seconds * 1_000));
    refused.clear();
    await clock.advance(30_000);
    expect(written).toEqual(['A*']);
    expect(new Set(tries)).toEqual(new Set([1]));
    expect([under.quarantined, clock.pending, under.active]).toEqual([0, 0, undefined]);
  });

  it('keeps back what must not pass it, whenever that came, and lets it go in order', async () => {
    const { under, add, refused, written, clock } = refusing('a1');
    add('b1', 'a1', 'a2', 'b2', 'a3', 'C');
    await under.quiet();
    add('a4', 'b3');
    await under.quiet();
    expect(written).toEqual(['b1', 'b2', 'C', 'b3']);
    expect([under.holds('a'), under.holds('b'), under.quarantined]).toEqual([true, false, 4]);
    refused.clear();
    await clock.advance(1_000);
    await under.quiet();
    expect(written.slice(4)).toEqual(['a1*', 'a2*', 'a3*', 'a4*']);
    expect(under.quarantined).toBe(0);
  });

  it('takes too long for one that somebody holds locked: that one is soon found, and tried a quarter of the time', async () => {
    const locked = new Set(['a1']);
    const written: string[] = [];
    const { under, clock, failures } = writer(async (batch) => {
      if (batch.some((item) => locked.has(item.replace('*', '')))) {
        await new Promise<void>((resolve) => void clock.after(2_000, resolve));
        throw new TooLong('cancelled');
      }
      written.push(...batch);
    });
    const others = Array.from({ length: 70 }, (_, i) => `${i}`);
    for (const item of [...others.slice(0, 45), 'a1', 'a2', ...others.slice(45)]) under.add(item);
    await turn();
    await clock.advance(2_000);
    await clock.advance(100);
    await turn();
    await clock.advance(2_000);
    expect([failures, written, under.quarantined]).toEqual([[100, 6_000], others, 2]);
    await clock.advance(6_000);
    await clock.advance(2_000);
    expect(failures.at(-1)).toBe(12_000);
    locked.clear();
    await clock.advance(12_000);
    await under.quiet();
    expect(written.slice(others.length)).toEqual(['a1*', 'a2*']);
  });

  it('takes too long for all of them together: on a slow server they do not go one by one', async () => {
    const sizes: number[] = [];
    const { under, clock } = writer(async (batch) => {
      sizes.push(batch.length);
      await new Promise<void>((resolve) => void clock.after(1_000, resolve));
      if (batch.length > 20) throw new TooLong('cancelled');
    });
    for (let i = 0; i < 40; i += 1) under.add('A');
    await turn();
    for (let i = 0; i < 12; i += 1) await clock.advance(1_000);
    expect(sizes).toEqual([40, 1, 2, 4, 8, 16, 9]);
  });

  it('gives up those of an owner who is gone, but for one that is being written', async () => {
    const { under, add, clock } = refusing('a1', 'b1');
    add('a1', 'a2', 'b1');
    await turn();
    await clock.advance(100);
    expect(under.drop((item) => item.startsWith('a'))).toEqual(['a1*', 'a2*']);
    expect([under.quarantined, under.holds('a'), under.holds('b')]).toEqual([1, false, true]);
    add('a3');
    await under.quiet();
    expect(under.waiting).toEqual(['b1*']);
    under.stop();
  });
});
