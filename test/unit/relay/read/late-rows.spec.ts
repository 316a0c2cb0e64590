import { FullScan } from '../../../../lib/relay/read/full-scan.js';
import { LateRows } from '../../../../lib/relay/read/late-rows.js';
import { SnapshotLowWaterMark } from '../../../../lib/relay/read/snapshot-low-water-mark.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { BUCKETS, GONE, HeldTable } from '../../../support/held-table.js';

const FULL_SCAN = 45_000;
/** Milliseconds. */
const LIMIT = 500;

describe('LateRows', () => {
  let clock: FakeClock;
  let table: HeldTable;
  let floor: SnapshotLowWaterMark;
  const heads = new Map(BUCKETS.map((bucket) => [bucket, String(GONE)]));
  const positions = BUCKETS.map((bucket) => ({ bucket, after: String(GONE) }));
  const known = new Set<string>();
  /** @param away milliseconds of the way to the server and back */
  const open = (limit = LIMIT, from = 0, away = 0): LateRows => {
    clock = new FakeClock();
    table = new HeldTable(clock, from, Infinity);
    Object.assign(table, { sweepLimit: limit, slow: away });
    floor = new SnapshotLowWaterMark();
    for (const [bucket, seq] of heads) floor.lowWaterMarks.set(bucket, seq);
    return new LateRows(table, 0, floor, clock, () => undefined, undefined, FULL_SCAN);
  };
  const find = (late: LateRows) => late.find(undefined, heads, positions, known);
  /** Reads until a turn of the full scan that is due is through. */
  const turn = async (late: LateRows): Promise<void> => {
    await clock.advance(FULL_SCAN);
    do {
      await find(late);
      await clock.advance(50);
    } while (late.scan.left !== undefined);
  };
  /** What was looked at of a bucket, without a hole from the top down. */
  const lowest = (bucket: number): number => {
    let down = GONE;
    for (const { positions: ranges, cancelled } of table.asked) {
      const range = ranges.find((each) => each.bucket === bucket);
      if (cancelled || range === undefined || Number(range.upTo) < down) continue;
      down = Math.min(down, Number(range.after));
    }
    return down;
  };

  it('Q1: five billion numbers of which nothing is left take a few statements', async () => {
    const late = open(LIMIT, GONE);
    const far = new Map(BUCKETS.map((bucket) => [bucket, '5000000000']));
    for (const [bucket, seq] of far) floor.lowWaterMarks.set(bucket, seq);
    await clock.advance(FULL_SCAN);
    table.live.push({ bucket: 1, seq: '7' });
    for (let i = 0; i < 40 && table.asked.length < 60; i += 1) {
      await late.find(undefined, far, positions, known);
      await clock.advance(1_000);
    }
    expect(table.asked.length).toBeLessThan(60);
  });

  it.each([0, 20])(
    'Q1: a turn ends as soon where the server is %d ms away: that is not what rows cost',
    async (away) => {
      const late = open(LIMIT, GONE - 100_000, away);
      await turn(late);
      expect(BUCKETS.map(lowest)).toEqual([0, 0]);
      expect(table.asked.length).toBeLessThan(60);
    },
  );

  it('Q1: what a slice meets below the floors is found together with all that is before it, in order', async () => {
    const late = open();
    const live = [3, GONE / 2, GONE - 1].flatMap((seq) => BUCKETS.map((bucket) => ({ bucket, seq: String(seq) })));
    table.live.push(...live);
    await clock.advance(FULL_SCAN);
    const { places, complete } = await find(late);
    expect(complete).toBe(true);
    for (const bucket of BUCKETS)
      expect(places.filter((place) => place.bucket === bucket).map(({ seq }) => Number(seq))).toEqual([
        3,
        GONE / 2,
        GONE - 1,
      ]);
  });

  it('a slice that took seconds is followed by a pause of one turn, and no longer', () => {
    const scan = new FullScan(FULL_SCAN, 0);
    expect(scan.due(heads, FULL_SCAN)).not.toEqual([]);
    scan.done(FULL_SCAN, FULL_SCAN + 10_000);
    expect(scan.due(heads, 2 * FULL_SCAN)).toEqual([]);
    expect(scan.due(heads, 2 * FULL_SCAN + 10_000)).not.toEqual([]);
  });

  it('P1: a turn of the full scan that has nothing to look at is followed by the next one', () => {
    const scan = new FullScan(FULL_SCAN, 0);
    expect(scan.due(new Map([[0, '0']]), FULL_SCAN)).toEqual([]); // nothing was read yet
    expect(scan.due(heads, 2 * FULL_SCAN)).not.toEqual([]);
    expect(scan.due(new Map(), 2 * FULL_SCAN)).toEqual([]); // its buckets were given up within the turn
    expect(scan.due(heads, 3 * FULL_SCAN)).not.toEqual([]);
  });

  it('Q9: a sweep that is too wide for one statement is made in several, and none begins again', async () => {
    const late = open(100);
    table.live.push({ bucket: 0, seq: '5' }, { bucket: 0, seq: String(GONE - 5) });
    for (const bucket of BUCKETS) floor.lowWaterMarks.set(bucket, '0');
    floor.previous = { xmin: '7', xmax: '8', open: ['7'] }; // and ends
    const { places } = await late.find({ xmin: '8', xmax: '8', open: [] }, heads, positions, known);
    expect(places.map(({ seq }) => Number(seq))).toEqual([5, GONE - 5]);
    expect(table.asked.filter(({ cancelled }) => cancelled).length).toBeLessThan(5);
    expect(clock.monotonic()).toBeLessThan(3 * (GONE / 1000));
  });
});
