import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CellResults, combinations } from '../../../bench/support/cells.js';

const AXES = { mode: ['consume', 'enqueue'], batch: [1, 10] };

describe('a grid', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'outbox-test-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  it('has every combination of its axes', () => {
    expect(combinations(AXES)).toEqual([
      { mode: 'consume', batch: 1 },
      { mode: 'consume', batch: 10 },
      { mode: 'enqueue', batch: 1 },
      { mode: 'enqueue', batch: 10 },
    ]);
  });

  it('goes on after the last whole line of its file', () => {
    const file = join(folder, 'grid.jsonl');
    const cells = combinations(AXES);
    const before = new CellResults(['mode', 'batch'], file);
    before.add({ batch: 10, mode: 'consume', perSecond: 7 });
    before.add({ ...cells[2], perSecond: 8 });
    appendFileSync(file, '{"mode":"enqueue","batch":10,"per');

    const after = new CellResults(['mode', 'batch'], file);
    expect(cells.filter((cell) => after.has(cell))).toEqual([cells[1], cells[2]]);
    after.add({ ...cells[3], perSecond: 9 });
    const all = new CellResults(['mode', 'batch'], file);
    expect(all.of(cells).map(({ perSecond }) => perSecond)).toEqual([7, 8, 9]);
    expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toHaveLength(3);
  });
});
