import { ProbedLowWaterMark } from '../../../../lib/relay/read/probed-low-water-mark.js';
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
  const probe = (clean: boolean, head = 1_000): void => {
    const ranges = floor.toProbe(all, heads(head));
    floor.probed(
      ranges,
      ranges.map(() => clean),
      clock.wall(),
    );
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
    expect(floor.candidates.get(0)?.length).toBeLessThanOrEqual(17);
  });

  it('an uncommitted insert holds the floor; the range is probed again, and not with every read', async () => {
    floor.passed(undefined, heads(10), NOTHING);
    await clock.advance(60_000);
    probe(false);
    expect(floor.toProbe(all, heads(10))).toEqual([]);
    await clock.advance(500);
    expect(floor.toProbe(all, heads(10))).toEqual([{ bucket: 0, after: '0', upTo: '10' }]);
    probe(true);
    expect(floor.of(0)).toBe('10');
  });

  it('rises though reading starts again and again, and passes nothing that no sweep reaches', async () => {
    for (let second = 1; second <= 200; second += 1) {
      floor.passed(undefined, heads(second), NOTHING);
      probe(true);
      if (second % 30 === 0) floor.rewind(heads(Number(floor.of(0))));
      await clock.advance(1_000);
    }
    expect(Number(floor.of(0))).toBeGreaterThan(130);
    const below = Number(floor.of(0));
    floor.rewind(heads(below));
    await clock.advance(60_000);
    probe(true, below);
    expect(floor.of(0)).toBe(String(below)); // what lies above is not swept before it is read again
    floor.passed(undefined, heads(below + 1), NOTHING);
    probe(true);
    expect(Number(floor.of(0))).toBeGreaterThan(below + 1); // the head was read 60 s ago, whatever was read since
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
});
