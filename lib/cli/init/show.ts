import { inOrder } from './edits.js';
import type { Change } from './plan.js';

/** Lines that go and come, as a diff has them; of a new file all that comes. */
export function changedLines({ before, after, insertions }: Change): string[] {
  if (before === undefined) return added(after.replace(/\n$/, ''));
  const lines: string[] = [];
  for (const { start, end, inside } of touched(
    before,
    inOrder(insertions).map(({ at }) => at),
  )) {
    const old = before.slice(start, end);
    const shift = sum(
      insertions.filter(({ at }) => at < start),
      before,
    );
    const grown = sum(inside.map((at) => insertions.filter((one) => one.at === at)).flat(), before);
    const now = after.slice(start + shift, end + shift + grown);
    lines.push(...difference(old, now));
  }
  return lines;
}

interface Line {
  readonly start: number;
  readonly end: number;
  /** Different places. */
  readonly inside: readonly number[];
}

/** The lines of a text that have one of these places, which are in order. */
function touched(text: string, places: readonly number[]): Line[] {
  const lines = new Map<number, Line>();
  for (const at of new Set(places)) {
    const start = text.lastIndexOf('\n', at - 1) + 1;
    const next = text.indexOf('\n', at);
    const known = lines.get(start)?.inside ?? [];
    lines.set(start, { start, end: next === -1 ? text.length : next, inside: [...known, at] });
  }
  return [...lines.values()];
}

const sum = (insertions: Change['insertions'], text: string): number =>
  insertions.reduce((length, { text: part }) => length + part.length + (text.includes('\r\n') ? count(part) : 0), 0);
const count = (text: string): number => text.split('\n').length - 1;

/** A line that stays as it is is not shown. */
function difference(old: string, now: string): string[] {
  const lines = now.split('\n').map(withoutReturn);
  const was = withoutReturn(old);
  const stays = lines.indexOf(was);
  if (stays === -1) return [`- ${was}`, ...lines.map((line) => `+ ${line}`)];
  return lines.toSpliced(stays, 1).map((line) => `+ ${line}`);
}

const withoutReturn = (line: string): string => line.replace(/\r$/, '');
const added = (text: string): string[] => text.split('\n').map((line) => `+ ${line}`);
