import { Approach } from '../../../../lib/relay/read/approach.js';
import { Reader } from '../../../../lib/relay/read/reader.js';
import { ProbedLowWaterMark } from '../../../../lib/relay/read/probed-low-water-mark.js';
import { SnapshotLowWaterMark } from '../../../../lib/relay/read/snapshot-low-water-mark.js';
import type { ReadPosition, ReadyStore, Snapshot } from '../../../../lib/store/ready-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { BUCKETS, GONE, HeldTable, source } from '../../../support/held-table.js';

describe('Approach', () => {
  const clock = new FakeClock();
  let table: HeldTable;
  let floor: SnapshotLowWaterMark;
  let approach: Approach;
  const open = (from?: number, to?: number): void => {
    table = new HeldTable(clock, from, to);
    floor = new SnapshotLowWaterMark();
    approach = new Approach(table, 0, floor, clock);
    for (const bucket of BUCKETS) approach.add(bucket);
  };
  const begin = (last = String(GONE)) => approach.begin({ source: source(last), fence: '100' }, new Set());
  /** Steps until the buckets join; where they do. */
  const joined = async (most = 2_000): Promise<Record<number, string>> => {
    for (let step = 0; step < most; step += 1) {
      const points = await approach.goOn();
      if (points.size > 0) return Object.fromEntries(points);
    }
    throw new Error(`not within ${most} steps`);
  };
  const live = (...seqs: number[]): void => {
    table.live = seqs.flatMap((seq) => BUCKETS.map((bucket) => ({ bucket, seq: String(seq) })));
  };

  it('Q5: one statement where nothing is in the way: before the first row of each bucket, or at the last number', async () => {
    open(0, 0);
    table.live = [5, 9].map((seq) => ({ bucket: 0, seq: String(seq) }));
    begin('5000000000');
    expect(await joined(1)).toEqual({ 0: '4', 1: '5000000000' });
    // Nothing can appear any more up to the last number, wherever the first row is.
    expect(floor.lowWaterMarks).toEqual(new Map([[0, '5000000000'], [1, '5000000000']])); // prettier-ignore
    expect(table.asked).toHaveLength(1);
    expect([...approach.walks.ends]).toEqual([[0, '5000000000']]);
  });

  it('Q5: past rows that are gone in slices of milliseconds, one in a step, and none of them again', async () => {
    open();
    live(GONE - 1_000_000, GONE - 10);
    begin();
    expect(await joined()).toEqual({ 0: String(GONE - 1_000_001), 1: String(GONE - 1_000_001) });
    const [whole, ...slices] = table.asked;
    expect(whole).toMatchObject({ cancelled: true });
    expect(Math.max(...slices.map(({ ms }) => ms))).toBeLessThanOrEqual(20); // one that grew too far
    for (const [i, { ranges }] of slices.entries())
      expect(ranges.map(({ upTo }) => upTo)).toEqual(
        BUCKETS.map(() => slices[i - 1]?.ranges[0]?.after ?? String(GONE)),
      );
  });

  it('Q5: past a backlog in front of which rows are gone, without a look at each of its rows', async () => {
    open(0, 1_000_000);
    table.live = Array.from({ length: 20_000 }, (_, i) => ({ bucket: 0, seq: String(1_000_001 + i * 100) }));
    begin();
    expect(await joined()).toEqual({ 0: '1000000', 1: String(GONE) });
    expect(table.asked.length).toBeLessThan(400);
    expect(table.asked.filter(({ cancelled }) => cancelled).length).toBeLessThan(12);
  });

  it('Q5: five billion numbers below them of which nothing is left take a few statements', async () => {
    open(4_999_900_000, 5_000_000_000);
    begin('5000000000');
    expect(await joined(100)).toEqual({ 0: '5000000000', 1: '5000000000' });
  });

  it('Q5: where the server is so busy that the smallest slice takes too long, it gets more time', async () => {
    open(GONE - 40, GONE);
    table.slow = 300;
    begin();
    expect(await joined(100)).toEqual({ 0: String(GONE), 1: String(GONE) });
  });

  it('Q5: what the server refuses for another reason, or for the longest time, is an error', async () => {
    open();
    begin();
    table.slow = 20_000;
    await expect(joined()).rejects.toThrow('statement timeout');
    table.lowest = () => Promise.reject(new Error('deadlock detected'));
    await expect(approach.goOn()).rejects.toThrow('deadlock');
    expect(approach.isOn).toBe(true);
  });

  describe('a transaction that is older than the last number', () => {
    const openOnes = (...ids: number[]): Snapshot => ({ xmin: '7', xmax: '101', open: ids.map(String) });
    beforeEach(() => {
      open();
      begin();
      table.snapshot = floor.previous = openOnes(7, 8, 100);
    });

    it('Q5: ends within the look: the look begins again, or its row would be passed over', async () => {
      for (let step = 0; step < 20; step += 1) await approach.goOn();
      live(GONE - 5);
      table.snapshot = floor.previous = openOnes(7);
      expect(await joined()).toEqual({ 0: String(GONE - 6), 1: String(GONE - 6) });
      const top = ({ ranges }: { ranges: readonly ReadPosition[] }): boolean => ranges[0]?.upTo === String(GONE);
      expect(table.asked.filter(top)).toHaveLength(3); // all at once, and two times in slices
    });

    it('Q5: stays open: the buckets join, and what it may leave is swept for when it ends', async () => {
      const points = await joined();
      expect(points).toEqual({ 0: String(GONE), 1: String(GONE) });
      expect(floor.of(0)).toBe('0');
      const heads = new Map(Object.entries(points).map(([bucket, seq]) => [Number(bucket), seq]));
      const younger = { xmin: '7', xmax: '120', open: ['7', '8'] };
      expect(floor.toSweep(younger, heads)).toEqual([]); // whoever is younger than the fence is above the heads
      const range = { after: '0', upTo: String(GONE) };
      const ended = { xmin: '8', xmax: '120', open: ['8'] };
      expect(floor.toSweep(ended, heads)).toEqual(BUCKETS.map((bucket) => ({ bucket, ...range })));
      floor.passed({ xmin: '120', xmax: '120', open: [] }, heads);
      expect(floor.of(0)).toBe(String(GONE));
    });

    it('Q5: is open while nobody knows what has ended since: the buckets wait for the next read', async () => {
      floor.previous = undefined;
      await expect(joined()).rejects.toThrow('not within');
      floor.previous = openOnes(7, 8);
      expect(await joined(1)).toEqual({ 0: String(GONE), 1: String(GONE) });
    });
  });

  it('Q5: a bucket that was given up meanwhile does not join, and one that came meanwhile has a turn of its own', async () => {
    open();
    begin();
    for (let step = 0; step < 5; step += 1) await approach.goOn();
    approach.forget(0);
    approach.add(0);
    expect(await joined()).toEqual({ 1: String(GONE) });
    expect([approach.has(0), approach.has(1), approach.asksEdge]).toEqual([true, false, true]);
    approach.forget(0);
    expect(approach.isOn).toBe(false);
    approach.add(1);
    begin();
    approach.forget(1);
    expect(approach.isOn).toBe(false);
  });

  it.each([undefined, '0'])('Q5: buckets are fetched from their beginning where the last number is %p', (last) => {
    open();
    expect(approach.begin({ source: source(last), fence: '100' }, new Set())).toEqual(new Map([[0, '0'], [1, '0']])); // prettier-ignore
    expect(approach.isOn).toBe(false);
  });

  it('is on where reads return snapshots, and the store can look', () => {
    open();
    expect(Approach.on(table, 0, floor, clock)).toBeInstanceOf(Approach);
    expect(Approach.on({}, 0, floor, clock)).toBeUndefined();
    expect(Approach.on(table, 0, new ProbedLowWaterMark(() => 0), clock)).toBeUndefined();
  });
});

describe('Reader with an approach', () => {
  const nothing = { messages: [], durable: true, snapshot: { xmin: '101', xmax: '101', open: [] } };
  const answer = { session: 1, last: '100', end: '100' };
  let fetched: string[][];
  let reader: Reader;
  beforeEach(() => {
    Object.assign(answer, { session: 1, last: '100', end: '100' });
    fetched = [];
    const store = {
      edge: async () => ({ ...nothing, source: source(answer.end), fence: '100', session: answer.session }),
      lowest: async () => ({ places: [], snapshot: nothing.snapshot }),
      fetch: async ({ positions }: Parameters<ReadyStore['fetch']>[0]) => {
        fetched.push(positions.map(({ bucket, after }) => `${bucket} ${after}`));
        return { ...nothing, source: source(answer.last), session: answer.session };
      },
      sweep: async () => ({ places: [], complete: true }),
      readPlaces: async () => ({ ...nothing, session: answer.session }),
    };
    reader = new Reader(store, 0, new SnapshotLowWaterMark(), new FakeClock(), () => undefined);
    reader.add(0);
  });

  it('Q5: no bucket is fetched from its beginning, neither at first nor on a new session', async () => {
    await reader.read(100);
    Object.assign(answer, { session: 2 });
    expect(await reader.read(100)).toMatchObject({ more: true, startedOver: true });
    expect([reader.heads.size, reader.approach?.has(0)]).toEqual([0, true]);
    await reader.read(100);
    expect(fetched).toEqual([['0 100'], ['0 100'], ['0 100']]);
  });

  it('Q5: what tells the last number tells of another session, and of numbers that went back', async () => {
    const told: string[] = [];
    reader.told = (why) => told.push(why);
    await reader.read(100);
    reader.add(1);
    Object.assign(answer, { session: 2 });
    expect(await reader.read(100)).toMatchObject({ startedOver: true });
    Object.assign(answer, { last: '7', end: '7' });
    expect(await reader.read(100)).toMatchObject({ startedOver: true });
    expect(told).toEqual([expect.stringMatching(/went back from 100 to 7/)]);
    await reader.read(100);
    expect(fetched.at(-1)?.sort()).toEqual(['0 7', '1 7']);
  });

  it('Q5: a bucket that is to be read from its beginning again, as something of it was given back, is looked at again', async () => {
    await reader.read(100);
    reader.lowWaterMark.restart(new Map([[0, '0']]));
    reader.rewind([]);
    expect(reader.approach?.has(0)).toBe(true);
    reader.forget(0);
    expect(reader.approach?.isOn).toBe(false);
  });
});
