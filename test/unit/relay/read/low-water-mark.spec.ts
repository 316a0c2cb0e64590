import fc from 'fast-check';
import { oldestFinishedBetween, SnapshotLowWaterMark } from '../../../../lib/relay/read/snapshot-low-water-mark.js';
import { ModelTable } from '../../../support/model-table.js';

const RUNS = 600;

type Step =
  | { do: 'insert' | 'reserve'; writer: number; bucket: number }
  | { do: 'insertHeld'; writer: number }
  | { do: 'end'; writer: number; how: 'commit' | 'rollback' }
  | { do: 'settle' }
  | { do: 'answer' }
  | { do: 'rewind' }
  | { do: 'regain'; bucket: number }
  | { do: 'pass'; ms: number };
const writer = fc.nat(2);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('insert' as const), writer, bucket: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reserve' as const), writer, bucket: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('insertHeld' as const), writer }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      writer,
      how: fc.constantFrom('commit' as const, 'commit' as const, 'rollback' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('answer' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('rewind' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('regain' as const), bucket: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(100, 2_500, 61_000) }) },
);
const read = fc.record({
  do: fc.constant('read' as const),
  limit: fc.constantFrom(1, 3, 100),
  between: fc.array(step, { maxLength: 3 }),
  afterSweep: fc.array(step, { maxLength: 2 }),
  looking: fc.array(step, { maxLength: 3 }),
  cancelled: fc.nat(9).map((n) => n === 0),
});
const history = fc.array(fc.oneof({ weight: 5, arbitrary: step }, { weight: 3, arbitrary: read }), {
  minLength: 5,
  maxLength: 120,
  size: 'max', // long ones, not the short ones that are the default
});

/** A bucket that is lost, and had again, while a read asks where the numbers end: what that read concludes is not of it. */
const oneRow = (...looking: Step[]) => ({
  do: 'read' as const,
  limit: 1 as const,
  between: [] as Step[],
  afterSweep: [] as Step[],
  looking,
  cancelled: false,
});
const REGAINED_WHILE_ASKED = [
  oneRow(),
  { do: 'insert' as const, writer: 2, bucket: 0 },
  { do: 'regain' as const, bucket: 0 },
  oneRow({ do: 'regain', bucket: 0 }, { do: 'answer' }, { do: 'end', writer: 2, how: 'commit' }),
  oneRow(),
  oneRow(),
  { do: 'settle' as const },
  { do: 'answer' as const },
  oneRow(),
];

async function apply(table: ModelTable, each: Step): Promise<void> {
  if (each.do === 'insert') table.insert(each.writer, each.bucket);
  else if (each.do === 'reserve') table.reserve(each.writer, each.bucket);
  else if (each.do === 'insertHeld') table.insertHeld(each.writer);
  else if (each.do === 'end') table.end(each.writer, each.how);
  else if (each.do === 'settle') table.settle();
  else if (each.do === 'answer') await table.answer();
  else if (each.do === 'rewind') table.rewind();
  else if (each.do === 'regain') table.regain(each.bucket);
  else if (each.do === 'pass') await table.pass(each.ms);
}

describe.each(['snapshots', 'probes'] as const)('reading past open transactions, with %s', (kind) => {
  it('hands out every row once, none before an earlier visible one, and the floor is never above a row to come', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.constantFrom(16, 64, Infinity), async (steps, reach) => {
        const table = new ModelTable(kind);
        table.reach = reach;
        for (const each of steps) {
          if (each.do !== 'read') await apply(table, each);
          else {
            table.between = () => {
              table.between = () => undefined;
              for (const inner of each.between) if (inner.do !== 'rewind') void apply(table, inner);
            };
            table.afterSweep = () => {
              table.afterSweep = () => undefined;
              for (const inner of each.afterSweep) if (inner.do !== 'rewind') void apply(table, inner);
            };
            const looking = [...each.looking];
            table.looking = () => {
              const [inner] = looking.splice(0, 1);
              if (inner !== undefined && inner.do !== 'rewind') void apply(table, inner);
            };
            table.cancels = each.cancelled;
            await table.read(each.limit);
            table.cancels = false;
            table.between = table.afterSweep = table.looking = () => undefined;
          }
        }
        for (const each of [0, 1, 2]) table.end(each, 'commit');
        for (let i = 0; i < 400 && table.visible().some(({ seq }) => !table.handed.has(seq)); i += 1)
          if ((await table.read(3)) === 0) await table.pass(500);
        const lost = table.visible().filter(({ seq }) => !table.handed.has(seq));
        expect({ lost, complaints: table.complaints }).toEqual({ lost: [], complaints: [] });
      }),
      { numRuns: RUNS, examples: [[REGAINED_WHILE_ASKED, 16]] },
    );
  });

  it('the floor rises when nobody is open, and stays below one that is', async () => {
    const table = new ModelTable(kind);
    const rounds = async (): Promise<void> => {
      for (let i = 0; i < 4; i += 1) {
        table.insert(0, 0);
        table.end(0, 'commit');
        await table.read(100);
        table.settle();
        await table.answer();
        await table.clock.advance(61_000);
      }
      await table.read(100);
    };
    await rounds();
    expect(Number(table.floor.of(0))).toBeGreaterThan(0);
    table.insert(1, 0);
    const seq = Number(table.nextSeq) - 1;
    await rounds();
    expect(Number(table.floor.of(0))).toBeLessThan(seq);
    table.end(1, 'commit');
    await rounds();
    expect(Number(table.floor.of(0))).toBeGreaterThan(seq);
    expect(table.complaints).toEqual([]);
  });

  it('a large transaction that commits late is read in parts', async () => {
    const table = new ModelTable(kind);
    for (let i = 0; i < 500; i += 1) table.insert(0, i % 2);
    table.insert(1, 0);
    table.insert(1, 1);
    table.end(1, 'commit');
    await table.read(20);
    table.end(0, 'commit');
    let most = 0;
    for (let i = 0; i < 60; i += 1) most = Math.max(most, await table.read(20));
    expect(most).toBeLessThanOrEqual(40);
    expect(table.handed.size).toBe(502);
    expect(table.complaints).toEqual([]);
  });
});

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
