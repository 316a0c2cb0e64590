import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';

/** One combination of a grid: the value of each axis, by the axis' name. */
export type Cell = Readonly<Record<string, string | number>>;

/** Every combination of the axes; the last axis changes first. */
export function combinations(axes: Readonly<Record<string, readonly (string | number)[]>>): Cell[] {
  let cells: Cell[] = [{}];
  for (const [name, values] of Object.entries(axes))
    cells = cells.flatMap((cell) => values.map((value) => ({ ...cell, [name]: value })));
  return cells;
}

/** What was measured of each combination. With a file, what stands there is kept, and not measured again. */
export class CellResults {
  /** @internal */ readonly known = new Map<string, Cell>();

  constructor(
    readonly axes: readonly string[],
    readonly file: string | undefined,
  ) {
    if (file === undefined || !existsSync(file)) return;
    const text = readFileSync(file, 'utf8');
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    if (whole !== text) writeFileSync(file, whole); // a line that a crash cut in two is no result
    for (const line of whole.split('\n').slice(0, -1)) this.keep(JSON.parse(line) as Cell);
  }

  has(cell: Cell): boolean {
    return this.known.has(this.keyOf(cell));
  }

  add(result: Cell): void {
    this.keep(result);
    if (this.file !== undefined) appendFileSync(this.file, `${JSON.stringify(result)}\n`);
  }

  /** Those of these cells, in their order. */
  of(cells: readonly Cell[]): Cell[] {
    return cells.map((cell) => this.known.get(this.keyOf(cell))).filter((result) => result !== undefined);
  }

  /** @internal */ keep(result: Cell): void {
    this.known.set(this.keyOf(result), result);
  }

  /** @internal */ keyOf(cell: Cell): string {
    return JSON.stringify(this.axes.map((axis) => cell[axis]));
  }
}
