import { ProbedLowWaterMark } from '../../../../lib/relay/read/probed-low-water-mark.js';
import { SweepDepth } from '../../../../lib/relay/read/sweep-depth.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';

const heads = (seq: number): Map<number, string> => new Map([[0, String(seq)]]);
const NOTHING = new Map();
const all = (): boolean => true;

describe('the floor of probes', () => {
  let clock: FakeClock;
  let floor: ProbedLowWaterMark;
  beforeEach(() => {
    clock = new FakeClock();
    floor = new ProbedLowWaterMark(() => clock.monotonic());
    floor.add(0);
  });
  const probe = (clean: boolean): void => {
    for (const mark of floor.toRaise()) {
      const ranges = mark.toProbe(all);
      mark.probed(
        ranges,
        ranges.map(() => clean),
        clock.wall(),
      );
    }
  };
  const sweptFrom = (seq: number): string[] => floor.toSweep(undefined, heads(seq)).map(({ after }) => after);

  it('P6: passes a number only after the longest wait for a lock, and 10 s for the statement', async () => {
    floor.waits(70_000);
    floor.passed(undefined, heads(10), NOTHING);
    await clock.advance(79_000);
    floor.passed(undefined, heads(20), NOTHING);
    probe(true);
    expect(sweptFrom(20)).toEqual(['0']);
    await clock.advance(1_000);
    probe(true);
    expect(sweptFrom(20)).toEqual(['10']);
  });

  it('P6: 60 s where locks are waited for less long', async () => {
    floor.waits(1_000);
    floor.passed(undefined, heads(10), NOTHING);
    await clock.advance(59_000);
    probe(true);
    expect(floor.of(0)).toBe('0');
    await clock.advance(1_000);
    probe(true);
    expect(floor.of(0)).toBe('10');
  });

  it('follows the heads in steps, so that no probe covers all that was read within its age', async () => {
    for (let second = 1; second <= 200; second += 1) {
      floor.passed(undefined, heads(second), NOTHING);
      probe(true);
      await clock.advance(1_000);
    }
    expect(Number(floor.of(0))).toBeGreaterThan(130);
    expect(Number(floor.of(0))).toBeLessThanOrEqual(140);
    expect(floor.lower.candidates.get(0)?.length).toBeLessThanOrEqual(17);
  });

  it('an uncommitted insert holds the floor; the range is probed again, and not with every read', async () => {
    floor.passed(undefined, heads(10), NOTHING);
    await clock.advance(60_000);
    probe(false);
    expect(floor.lower.toProbe(all)).toEqual([]);
    await clock.advance(500);
    expect(floor.lower.toProbe(all)).toEqual([{ bucket: 0, after: '0', upTo: '10' }]);
    probe(true);
    expect(floor.of(0)).toBe('10');
  });

  it('a bucket that is leased again starts at 0, whatever was read in its former life', async () => {
    floor.passed(undefined, heads(10), NOTHING);
    floor.forget(0);
    floor.add(0);
    floor.passed(undefined, heads(7), NOTHING);
    await clock.advance(60_000);
    probe(true);
    expect(floor.of(0)).toBe('7');
  });

  it('what is read again is read from the upper mark, and the floor stays', async () => {
    floor.passed(undefined, heads(10), NOTHING);
    await clock.advance(3_000);
    probe(true);
    expect([floor.of(0), floor.rewindTo(0)]).toEqual(['0', '10']);
    floor.rewind(heads(8));
    expect([floor.of(0), floor.rewindTo(0)]).toEqual(['0', '8']);
    await clock.advance(60_000);
    probe(true);
    expect(floor.of(0)).toBe('0'); // what was read above 8 was read for nothing
  });

  it('P6: where rows that are gone make it costly, the sweeps of 2 % of the time cover all, and what was overtaken is told', async () => {
    floor.passed(undefined, heads(10), NOTHING);
    await clock.advance(3_000);
    probe(true);
    const COSTLY = 100;
    const QUICK = 2;
    const from: string[] = [];
    let spent = 0;
    for (let n = 0; n < 500; n += 1) {
      const [after] = sweptFrom(20);
      from.push(after as string);
      const ms = after === '0' && n > 0 ? COSTLY : QUICK;
      if (ms === COSTLY && n > 16) spent += ms;
      await clock.advance(ms);
      floor.swept(ms);
      await clock.advance(100);
    }
    expect(from.slice(0, 16)).toEqual(Array(16).fill('0')); // until enough are known
    expect(from.filter((after) => after === '10').length).toBeGreaterThan(450);
    expect(spent / clock.monotonic()).toBeLessThan(0.03);
    expect(sweptFrom(20)).toEqual(['10']);
    expect(floor.toRaise()).toEqual([floor.upper]); // what lies below was not swept
    while (sweptFrom(20)[0] !== '0') await clock.advance(100);
    expect(floor.toRaise()).toEqual([floor.upper, floor.lower]);
    expect(floor.overtaken([{ bucket: 0, seq: '15' }])).toBeUndefined();
    expect(floor.overtaken([{ bucket: 0, seq: '5' }])).toEqual({ bucket: 0, seq: '5' });
  });
});

describe('the depth of sweeps', () => {
  it('a busy machine is no reason for less: a few in a row must take longer than others', () => {
    const depth = new SweepDepth();
    for (let now = 0; now < 10_000; now += 100) {
      expect(depth.isDeep(now)).toBe(true);
      depth.took(true, now % 300 === 0 ? 2 : 250, now);
    }
  });

  it('a way to the server that takes now more, now less is no reason either', () => {
    const depth = new SweepDepth();
    for (let n = 0; n < 1_000; n += 1) {
      expect(depth.isDeep(n * 100)).toBe(true);
      depth.took(true, n === 0 ? 1 : 2 + ((n * 7) % 5), n * 100);
    }
  });

  it('what was found and not published is looked for at once', () => {
    const depth = new SweepDepth();
    for (let n = 0; n < 17; n += 1) depth.took(true, n === 0 ? 1 : 50, 0);
    expect(depth.isDeep(100)).toBe(false);
    depth.again();
    expect(depth.isDeep(100)).toBe(true);
  });

  it('four are enough where each takes a quarter of a second longer, and alike', () => {
    const depth = new SweepDepth();
    for (let n = 0; n < 5; n += 1) {
      expect(depth.isDeep(0)).toBe(true);
      depth.took(true, n === 0 ? 1 : 300 + n, 0);
    }
    expect(depth.isDeep(10_000)).toBe(false);
  });
});
