import { oldestFinishedBetween, SnapshotLowWaterMark } from '../../../../lib/relay/read/snapshot-low-water-mark.js';

describe('the floor of snapshots', () => {
  const snapshot = (xmin: number, xmax: number, ...open: number[]) => ({
    xmin: `${xmin}`,
    xmax: `${xmax}`,
    open: open.map(String),
  });
  const heads = (seq: number) => new Map([[0, String(seq)]]);

  it('xmin = xmax says nothing of a transaction above it that holds an earlier number', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    floor.passed({ snapshot: snapshot(866, 866) }, heads(2)); // 866 is open and holds seq 1
    floor.passed({ snapshot: snapshot(866, 866) }, heads(2));
    expect(floor.of(0)).toBe('0');
    expect(floor.toSweep(snapshot(867, 867), heads(2))).toEqual([{ bucket: 0, after: '0', upTo: '2' }]);
  });

  it('a fence counts only for heads that were read before it was sent', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    floor.passed({ snapshot: snapshot(10, 10) }, heads(5));
    floor.wrote('11', 0); // sent before that read returned
    floor.passed({ snapshot: snapshot(12, 12) }, heads(5));
    expect(floor.of(0)).toBe('0');
    floor.wrote('12', 1);
    floor.passed({ snapshot: snapshot(13, 13) }, heads(5));
    expect(floor.of(0)).toBe('5');
  });

  it('the id that a first read brings says nothing of a transaction before it', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    const source = { server: 'a', table: 't', last: '9' };
    floor.passed({ snapshot: snapshot(10, 11, 10), source, fence: '11' }, heads(5));
    expect(floor.toSweep(snapshot(12, 12), heads(9))).toEqual([{ bucket: 0, after: '0', upTo: '9' }]);
  });

  it('sweeps nothing for a commit after everything that was read is settled, also when reads passed meanwhile', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    floor.passed({ snapshot: snapshot(10, 10) }, heads(5));
    floor.passed({ snapshot: snapshot(11, 11) }, heads(6));
    floor.wrote('12', 2);
    floor.passed({ snapshot: snapshot(13, 13) }, heads(6));
    expect(floor.of(0)).toBe('6');
    expect(floor.toSweep(snapshot(15, 15), heads(6))).toEqual([]);
  });

  it('sweeps from the last heads before the oldest that finished, not from the floor, under an endless transaction', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    floor.passed({ snapshot: snapshot(5, 10, 5) }, heads(100));
    floor.wrote('10', 1);
    floor.passed({ snapshot: snapshot(5, 11, 5) }, heads(200));
    expect(floor.of(0)).toBe('0');
    expect(floor.toSweep(snapshot(5, 13, 5), heads(200))).toEqual([{ bucket: 0, after: '100', upTo: '200' }]);
    expect(floor.toSweep(snapshot(13, 13), heads(200))).toEqual([{ bucket: 0, after: '0', upTo: '200' }]);
  });

  it('keeps few checkpoints however long a transaction stays open, and catches up after it', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    for (let i = 1; i <= 5_000; i += 1) {
      floor.passed({ snapshot: snapshot(5, 10 + i, 5) }, heads(i));
      floor.wrote(String(10 + i), i);
    }
    expect(floor.checkpoints.length).toBeLessThanOrEqual(65);
    expect(floor.of(0)).toBe('0');
    floor.passed({ snapshot: snapshot(6_000, 6_000) }, heads(5_000));
    expect(Number(floor.of(0))).toBeGreaterThan(4_000);
  });

  it('a bucket that is leased again starts at 0, whatever a checkpoint knew of its former life', () => {
    const floor = new SnapshotLowWaterMark();
    floor.add(0);
    floor.passed({ snapshot: snapshot(10, 10) }, heads(50));
    floor.wrote('10', 1);
    floor.forget(0);
    floor.add(0);
    floor.passed({ snapshot: snapshot(12, 12) }, heads(7));
    expect(floor.of(0)).toBe('0');
  });

  it('finds the oldest that finished, none of ours', () => {
    const find = (before: ReturnType<typeof snapshot>, after: ReturnType<typeof snapshot>, ...own: number[]) =>
      oldestFinishedBetween(before, after, new Set(own.map(BigInt)));
    expect(find(snapshot(10, 10), snapshot(10, 10))).toBeUndefined();
    expect(find(snapshot(7, 10, 7, 8), snapshot(8, 10, 8))).toBe(7n);
    expect(find(snapshot(7, 10, 7, 8), snapshot(8, 10, 8), 7)).toBeUndefined();
    expect(find(snapshot(10, 10), snapshot(10, 13, 10), 11)).toBe(12n);
    expect(find(snapshot(10, 10), snapshot(10, 12, 10), 11)).toBeUndefined();
  });
});
