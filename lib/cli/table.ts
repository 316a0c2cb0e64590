import { printable } from '../observe/redact/printable.js';
import { displayWidth, fit } from './display-width.js';
import { paint, type Style } from './style.js';
import type { Terminal } from './terminal.js';

export interface Column<Row> {
  readonly title: string;
  /** As it was stored: it is made printable here. */
  cell(row: Row): string;
  readonly align?: 'right';
  /** What does not fit is cut here, and not in other columns. */
  readonly mayBeCut?: true;
  /** Where the terminal is too narrow all the same, it is left out; the last such column first. */
  readonly mayBeLeftOut?: true;
  style?(row: Row): Style | undefined;
}

const GAP = '  ';
/** Columns that a cut cell keeps. */
const SHORTEST = 6;

/** Lines of a table, as wide as the terminal at most where columns may be cut or left out. */
export function tableLines<Row>(
  rows: readonly Row[],
  all: readonly Column<Row>[],
  { width, colors }: Pick<Terminal, 'width' | 'colors'>,
): string[] {
  const measured = all.map((column) => measure(column, rows));
  const shown = narrowed(withoutTooMany(measured, width), width);
  const line = (text: (column: Measured<Row>) => string, style: (column: Column<Row>) => Style | undefined): string =>
    shown
      .map((one) => paint(padded(text(one), one.width, one.column.align), style(one.column), colors))
      .join(GAP)
      .trimEnd();
  return [
    line(
      ({ column }) => column.title,
      () => 'dim',
    ),
    ...rows.map((row, n) =>
      line(
        ({ cells }) => cells[n] as string,
        (column) => column.style?.(row),
      ),
    ),
  ];
}

interface Measured<Row> {
  readonly column: Column<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

function measure<Row>(column: Column<Row>, rows: readonly Row[]): Measured<Row> {
  const cells = rows.map((row) => printable(column.cell(row)));
  const width = cells.reduce((most, cell) => Math.max(most, displayWidth(cell)), displayWidth(column.title));
  return { column, cells, width };
}

const total = (widths: readonly number[]): number =>
  widths.reduce((sum, one) => sum + one, GAP.length * (widths.length - 1));

function withoutTooMany<Row>(columns: readonly Measured<Row>[], width: number): readonly Measured<Row>[] {
  const least = columns.map((one) => (one.column.mayBeCut === true ? Math.min(SHORTEST, one.width) : one.width));
  const last = columns.findLastIndex(({ column }) => column.mayBeLeftOut === true);
  return total(least) <= width || last === -1 ? columns : withoutTooMany(columns.toSpliced(last, 1), width);
}

/** The widest of those that may be cut loses first. */
function narrowed<Row>(columns: readonly Measured<Row>[], width: number): readonly Measured<Row>[] {
  const cuttable = columns.filter(({ column }) => column.mayBeCut === true);
  const widest = Math.max(...cuttable.map((one) => one.width));
  const excess = total(columns.map((one) => one.width)) - width;
  if (excess <= 0 || cuttable.length === 0 || widest <= SHORTEST) return columns;
  const among = cuttable.filter((one) => one.width === widest);
  const second = Math.max(SHORTEST, ...cuttable.map((one) => one.width).filter((one) => one < widest));
  const narrower = widest - Math.min(widest - second, Math.ceil(excess / among.length));
  return narrowed(
    columns.map((one) => (among.includes(one) ? { ...one, width: narrower } : one)),
    width,
  );
}

function padded(text: string, width: number, align: 'right' | undefined): string {
  const shown = fit(text, width);
  const space = ' '.repeat(Math.max(0, width - displayWidth(shown)));
  return align === 'right' ? space + shown : shown + space;
}
