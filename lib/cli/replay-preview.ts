import { printable } from '../observe/redact/printable.js';
import type { FoundMessage, ReplayCount, ReplayPreview } from '../index.js';
import type { CliContext } from './command.js';
import { tableLines, type Column } from './table.js';
import { iso, messages, number } from './words.js';

export const leftOut = (skipped: number): string => (skipped === 0 ? '' : `, and left out ${number(skipped)}`);

/** What a replay would do, for people. */
export function tellPreview({ terminal }: CliContext, preview: ReplayPreview): void {
  const { count, skipped, bytes, firstAt, lastAt, hint } = preview;
  const between = count === 0 ? '' : `; published from ${iso(firstAt)} to ${iso(lastAt)}, ${number(bytes)} bytes`;
  terminal.out(`replay would publish ${messages(count)} again${between}${leftOut(skipped)}.`);
  if (hint !== null) terminal.say(hint);
  if (count === 0) return;
  for (const name of ['transports', 'types', 'topics'] as const)
    terminal.out(`${name.padEnd(10)}  ${countsText(preview[name], count)}`);
  terminal.out(count > preview.messages.length ? `the first ${preview.messages.length}:` : 'all of them:');
  for (const line of tableLines(preview.messages, COLUMNS, terminal)) terminal.out(line);
}

function countsText(counts: readonly ReplayCount[], all: number): string {
  const rest = counts.reduce((left, each) => left - each.count, all);
  const named = counts.map(({ name, count }) => `${printable(name)} ${number(count)}`);
  return [...named, ...(rest > 0 ? [`others ${number(rest)}`] : [])].join(', ');
}

const COLUMNS: readonly Column<FoundMessage>[] = [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'PUBLISHED', cell: ({ publishedAt }) => iso(publishedAt) },
  { title: 'TRANSPORT', mayBeLeftOut: true, cell: ({ transport }) => transport, mayBeCut: true },
  { title: 'TYPE', cell: ({ type }) => type, mayBeCut: true },
  { title: 'KEY', cell: ({ key }) => key ?? '-', mayBeCut: true },
];
