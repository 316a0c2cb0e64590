import { ProbedLowWaterMark } from '../../../../lib/relay/read/probed-low-water-mark.js';
import { approachOn } from '../../../../lib/relay/read/approaching.js';
import { ProbedApproach } from '../../../../lib/relay/read/probed-approach.js';
import { compareSeq, type Place } from '../../../../lib/outbox-message.js';
import type { ReadRange } from '../../../../lib/store/ready-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';

const BUCKETS = [0, 1];
/** Rows that are gone in each of two buckets; each takes a microsecond to walk over. */
const GONE = 40_000;
const source = (last: string | undefined) => ({ server: 'a', table: 't', last });

/** What somebody's snapshot keeps, on a server that gives up what takes too long. */
class HeldTable {
  live: Place[] = [];
  /** Not committed. */
  open: Place[] = [];
  readonly asked: { what: 'lowest' | 'probe'; ranges: readonly ReadRange[]; ms: number; at: number }[] = [];
  gone = GONE;
  lockWait: number | undefined;

  constructor(readonly clock: FakeClock) {}

  fetch(): never {
    throw new Error('The reader fetches.');
  }
  numberSource(): never {
    throw new Error('The reader asks for it.');
  }
  async lowest(_: number, ranges: readonly ReadRange[], ms: number) {
    const places = ranges.flatMap((range) => this.live.find((row) => inside(row, range)) ?? []);
    await this.walk('lowest', ranges, ms);
    return { places, snapshot: undefined };
  }
  async probe(_: number, ranges: readonly ReadRange[], ms = Infinity) {
    const clean = ranges.map((range) => !this.open.some((row) => inside(row, range)));
    await this.walk('probe', ranges, ms);
    return { clean, now: this.clock.wall(), ...(this.lockWait !== undefined && { lockWait: this.lockWait }) };
  }
  /** The whole bucket, also above the range. */
  private async walk(what: 'lowest' | 'probe', ranges: readonly ReadRange[], ms: number): Promise<void> {
    const took = ranges.length * (this.gone / 1_000);
    this.asked.push({ what, ranges, ms: Math.min(took, ms), at: this.clock.monotonic() });
    await this.clock.advance(Math.min(took, ms));
    if (took > ms) throw Object.assign(new Error('max_statement_time exceeded'), { errno: 1969 });
  }
}

const inside = ({ bucket, seq }: Place, range: ReadRange): boolean =>
  bucket === range.bucket && compareSeq(seq, range.after) > 0 && compareSeq(seq, range.upTo) <= 0;

describe('ProbedApproach', () => {
  let clock: FakeClock;
  let table: HeldTable;
  let floor: ProbedLowWaterMark;
  let approach: ProbedApproach;
  beforeEach(() => {
    clock = new FakeClock();
    table = new HeldTable(clock);
    floor = new ProbedLowWaterMark(() => clock.monotonic());
    approach = new ProbedApproach(table, 0, floor, clock);
    for (const bucket of BUCKETS) gain(bucket);
  });
  const gain = (bucket: number): void => {
    approach.add(bucket);
    floor.add(bucket);
  };
  const lose = (bucket: number): void => {
    approach.forget(bucket);
    floor.forget(bucket);
  };
  const step = async (): Promise<Record<number, string>> => {
    if (approach.asksEdge) approach.begin({ source: source(String(GONE)) }, new Set());
    let isOver = false;
    const points = approach.goOn().finally(() => (isOver = true));
    for (let turn = 0; !isOver; turn += 1) await (turn < 500 ? Promise.resolve() : clock.advance(10));
    return Object.fromEntries(await points);
  };
  /** Steps until all have joined; where they did. */
  const joined = async (): Promise<Record<number, string>> => {
    const points = {};
    for (let n = 0; n < 1_000 && approach.isOn; n += 1) Object.assign(points, await step());
    return points;
  };
  const stepsFor = async (ms: number): Promise<void> => {
    for (const end = clock.monotonic() + ms; clock.monotonic() < end;) {
      await step();
      await clock.advance(1_000);
    }
  };
  const floors = (): string[] => BUCKETS.map((bucket) => floor.of(bucket));
  const sweptFrom = (): string[] =>
    floor.toSweep(undefined, new Map(BUCKETS.map((bucket) => [bucket, '90000']))).map(({ after }) => after);
  const ALL = BUCKETS.map(() => String(GONE));

  it('Q6: where nothing is in the way, buckets are fetched from 0 after one look', async () => {
    table.gone = 0;
    expect(await step()).toEqual({ 0: '0', 1: '0' });
    expect(table.asked).toHaveLength(1);
    expect([approach.isOn, sweptFrom()]).toEqual([false, ['0', '0']]);
  });

  it('Q6: past rows that are gone, one bucket in a step, up to its first row', async () => {
    table.live = [{ bucket: 0, seq: String(GONE - 10) }];
    expect(await joined()).toEqual({ 0: String(GONE - 11), 1: String(GONE) });
    expect(table.asked.slice(1).map(({ ranges }) => ranges.length)).toEqual([1, 1, 1, 1]);
    expect(sweptFrom()).toEqual([String(GONE - 11), String(GONE)]);
  });

  it('Q6: no dirty read counts before an INSERT has had 2 s from its number to its row; a committed read follows it', async () => {
    await joined();
    const [, ...looks] = table.asked;
    expect(looks.map(({ what }) => what)).toEqual(['probe', 'lowest', 'probe', 'lowest']);
    expect(looks[0]?.at).toBeGreaterThanOrEqual(2_000);
  });

  it('Q6: a bucket with more of them gets more time', async () => {
    table.gone = 1_000_000;
    expect(await joined()).toEqual({ 0: String(GONE), 1: String(GONE) });
    expect(table.asked.map(({ ms }) => ms).filter((ms) => ms < 1_000)).toEqual([50, 50, 100, 200, 400, 800]);
  });

  it('Q6: a bucket in which an uncommitted row stays is swept from 0, and holds up no other', async () => {
    table.open = [{ bucket: 0, seq: String(GONE - 5) }];
    while (Object.keys(await step()).length === 0);
    expect([approach.has(0), approach.has(1)]).toEqual([true, false]);
    expect(await joined()).toEqual({ 0: String(GONE) });
    expect(sweptFrom()).toEqual(['0', String(GONE)]);
  });

  it('Q6: what disturbs a dirty read once is no uncommitted row', async () => {
    table.open = [{ bucket: 0, seq: String(GONE - 5) }];
    while (Object.keys(await step()).length === 0);
    table.open = [];
    table.live = [{ bucket: 0, seq: String(GONE - 5) }];
    expect(await joined()).toEqual({ 0: String(GONE - 6) });
    expect(sweptFrom()).toEqual([String(GONE - 6), String(GONE)]);
  });

  it('Q6: the floor stays at 0 until no INSERT can wait for a lock; what is met below is told, and swept for with all', async () => {
    table.lockWait = 70_000;
    await joined();
    expect([floors(), floor.rewindTo(0)]).toEqual([['0', '0'], String(GONE)]);
    expect(floor.overtaken([{ bucket: 0, seq: '7' }])).toEqual({ bucket: 0, seq: '7' });
    expect(floor.overtaken([{ bucket: 0, seq: String(GONE + 1) }])).toBeUndefined();
    expect([floor.sweptFrom(0, '7'), floor.sweptFrom(0, String(GONE + 1))]).toEqual(['0', String(GONE)]);
    await stepsFor(70_000);
    expect(floors()).toEqual(['0', '0']);
    await stepsFor(25_000);
    expect(floors()).toEqual(ALL);
  });

  it('Q6: a row that a later look meets is swept for, and leaves the floor at 0 until it is gone', async () => {
    await joined();
    expect(approach.takeMet()).toEqual([]);
    table.live = [{ bucket: 0, seq: '7' }];
    await stepsFor(10_000);
    expect(approach.takeMet()).toContainEqual({ bucket: 0, seq: '7' });
    await stepsFor(70_000);
    expect(floors()).toEqual(['0', String(GONE)]);
    table.live = [];
    await stepsFor(10_000);
    expect(floors()).toEqual(ALL);
  });

  it('Q6: a later look that takes longer than any statement may holds up nobody, and is made once in 500 s', async () => {
    await joined();
    table.gone = 20_000_000;
    await stepsFor(3_000_000);
    expect(floors()).toEqual(['0', '0']);
    const longest = table.asked.filter(({ ms }) => ms === 10_000).length;
    expect([longest >= 3, longest <= 6]).toEqual([true, true]);
    table.gone = GONE;
    await stepsFor(600_000);
    expect(floors()).toEqual(ALL);
  });

  it('Q6: later looks that are quick come to each bucket about once a second', async () => {
    await joined();
    table.gone = 0;
    table.asked.splice(0);
    const end = clock.monotonic() + 10_000;
    for (; clock.monotonic() < end; await clock.advance(10)) await step();
    const looks = table.asked.filter(({ what, at }) => what === 'probe' && at < end);
    for (const bucket of BUCKETS) {
      const own = looks.filter(({ ranges }) => ranges[0]?.bucket === bucket).length;
      expect([own >= 8, own <= 11]).toEqual([true, true]);
    }
  });

  it('Q6: what a later look met of a bucket that was given up is nobody’s', async () => {
    await joined();
    table.live = [{ bucket: 0, seq: '7' }];
    await stepsFor(10_000);
    lose(0);
    expect(approach.takeMet()).toEqual([]);
  });

  it('Q6: what was shown of a bucket that was given up is not of the same one, had again', async () => {
    await joined();
    lose(0);
    gain(0);
    await stepsFor(1_000);
    lose(0);
    gain(0);
    await clock.advance(70_000);
    await stepsFor(1_000);
    expect(floors()).toEqual(['0', String(GONE)]);
    const probe = table.probe.bind(table);
    table.probe = async (...args) => {
      lose(0); // while it is asked
      gain(0);
      return probe(...args);
    };
    lose(1);
    for (let n = 0; n < 400; n += 1) expect(await step()).toEqual({});
  });

  it('Q6: points that are read from again lower the marks, and what is above is swept', async () => {
    await joined();
    floor.restart(new Map([[0, '20'], [1, '0']])); // prettier-ignore
    expect([sweptFrom(), floor.unproved]).toEqual([['20', '0'], new Map([[0, '20']])]);
  });

  it.each([undefined, '0'])(
    'Q6: buckets are fetched from their beginning where the last number is %p',
    async (last) => {
      await step();
      expect(approach.asksEdge).toBe(true);
      expect(approach.begin({ source: source(last) }, new Set())).toEqual(new Map([[0, '0'], [1, '0']])); // prettier-ignore
      expect(approach.isOn).toBe(false);
    },
  );

  it('Q6: on another session all begins anew', async () => {
    await joined();
    table.gone = 60_000;
    gain(2);
    await step();
    approach.restart();
    expect([approach.second.size, [...approach.waiting]]).toEqual([0, [2]]);
  });

  it('Q6: what the server refuses for another reason is an error', async () => {
    table.lowest = () => Promise.reject(new Error('deadlock detected'));
    await expect(approach.goOn()).rejects.toThrow('deadlock');
    expect(approach.isOn).toBe(true);
  });

  it('is on where reads prove nothing, and the store can look and tells its numbers', () => {
    const { lowest, probe, numberSource, fetch } = table;
    expect(approachOn({ fetch, lowest, probe, numberSource }, 0, floor, clock)).toBeInstanceOf(ProbedApproach);
    expect(approachOn({ fetch, lowest, probe }, 0, floor, clock)).toBeUndefined();
    expect(approachOn({ fetch, probe, numberSource }, 0, floor, clock)).toBeUndefined();
  });
});
