import { BoundedReads } from '../../lib/store/mysql/bounded-reads.js';

describe('BoundedReads', () => {
  let now: number;
  let reads: BoundedReads;
  beforeEach(() => {
    now = 0;
    reads = new BoundedReads(() => now);
  });
  /** @returns whether it read by whole buckets */
  const read = async ({ ranges, whole }: { ranges: number; whole: number }, rows = 0): Promise<boolean> => {
    let way = false;
    await reads.measure(async (bounded) => {
      way = bounded;
      now += bounded ? whole : ranges;
      return Array.from({ length: rows });
    });
    return way;
  };
  /** Of so many milliseconds of reading the part that went by whole buckets. */
  const wholeOf = async (ms: number, took: { ranges: number; whole: number }): Promise<number> => {
    let sum = 0;
    const from = now;
    while (now - from < ms) if (await read(took)) sum += took.whole;
    return sum / (now - from);
  };

  it('Q6: what is quick is read by ranges, with however many rows', async () => {
    expect(await wholeOf(10_000, { ranges: 5, whole: 1 })).toBe(0);
    await read({ ranges: 60, whole: 1 }, 1_000);
    expect(reads.areOn).toBe(false);
  });

  it('Q6: where ranges are slow, and whole buckets are not, 2 % of the time goes into trying', async () => {
    expect(await wholeOf(100_000, { ranges: 400, whole: 10 })).toBeGreaterThan(0.97);
  });

  it('Q6: whole buckets that take longer are read once in 50 times as long', async () => {
    expect(await wholeOf(100_000, { ranges: 30, whole: 31 })).toBeLessThan(0.03);
    expect(await wholeOf(100_000, { ranges: 25, whole: 300 })).toBeLessThan(0.03);
  });

  it('Q6: ranges that become slow meanwhile are given up at once', async () => {
    await wholeOf(1_000, { ranges: 30, whole: 31 });
    expect(reads.areOn).toBe(false);
    await read({ ranges: 400, whole: 40 });
    expect(reads.areOn).toBe(true);
  });

  it('Q6: what the server gives up was slow; what fails for another reason tells nothing', async () => {
    const failing = (error: Error) => () => {
      now += 10_000;
      return Promise.reject(error);
    };
    await expect(reads.measure(failing(new Error('gone')))).rejects.toThrow('gone');
    expect(reads.areOn).toBe(false);
    const cancelled = Object.assign(new Error('max_statement_time exceeded'), { errno: 1969 });
    await expect(reads.measure(failing(cancelled))).rejects.toThrow('exceeded');
    expect(reads.areOn).toBe(true);
  });
});
