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
  style?(row: Row): Style | undefined;
}

const GAP = '  ';
/** Columns that a cut cell keeps. */
const SHORTEST = 8;

/** Lines of a table, as wide as the terminal at most where columns may be cut. */
export function tableLines<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { width, colors }: Pick<Terminal, 'width' | 'colors'>,
): string[] {
  const cells = rows.map((row) => columns.map((column) => printable(column.cell(row))));
  const heads = columns.map(({ title }) => title);
  const widths = narrowed(
    columns.map((_, n) => Math.max(...[heads, ...cells].map((row) => displayWidth(row[n] as string)))),
    columns,
    width,
  );
  const line = (texts: readonly string[], style: (n: number) => Style | undefined): string =>
    texts
      .map((text, n) => paint(padded(text, widths[n] as number, columns[n]?.align), style(n), colors))
      .join(GAP)
      .trimEnd();
  return [
    line(heads, () => 'dim'),
    ...cells.map((texts, n) => line(texts, (column) => columns[column]?.style?.(rows[n] as Row))),
  ];
}

/** The widest of those that may be cut loses first. */
function narrowed(
  widths: readonly number[],
  columns: readonly Column<never>[] | readonly unknown[],
  width: number,
): number[] {
  const narrow = [...widths];
  const total = (): number => narrow.reduce((sum, one) => sum + one, GAP.length * (narrow.length - 1));
  const cuttable = columns.flatMap((column, n) => ((column as { mayBeCut?: true }).mayBeCut === true ? [n] : []));
  while (total() > width) {
    const widest = Math.max(...cuttable.map((n) => narrow[n] as number));
    if (cuttable.length === 0 || widest <= SHORTEST) break;
    const second = Math.max(SHORTEST, ...cuttable.map((n) => narrow[n] as number).filter((one) => one < widest));
    const among = cuttable.filter((n) => narrow[n] === widest);
    const lose = Math.min(widest - second, Math.ceil((total() - width) / among.length));
    for (const n of among) narrow[n] = widest - lose;
  }
  return narrow;
}

function padded(text: string, width: number, align: 'right' | undefined): string {
  const shown = fit(text, width);
  const space = ' '.repeat(Math.max(0, width - displayWidth(shown)));
  return align === 'right' ? space + shown : shown + space;
}
