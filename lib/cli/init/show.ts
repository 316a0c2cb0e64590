import type { Change } from './plan.js';

/** Lines that go and come, as a diff has them; of a new file all that comes. */
export function changedLines({ before, after }: Change): string[] {
  const now = linesOf(after);
  const shown: string[] = [];
  let next = 0;
  const come = (end: number): void => void shown.push(...now.slice(next, end).map((line) => `+ ${line}`));
  for (const line of before === undefined ? [] : linesOf(before)) {
    const place = now.indexOf(line, next);
    if (place === -1) shown.push(`- ${line}`);
    else {
      come(place);
      next = place + 1;
    }
  }
  come(now.length);
  return shown;
}

const linesOf = (text: string): string[] => text.replace(/\r?\n$/, '').split(/\r?\n/);
