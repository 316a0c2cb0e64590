import { timeOfUuidV7 } from '../message/uuid-v7.js';

/** A row of the ready table, by its number. */
export interface NumberedRow {
  readonly seq: bigint;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/**
 * The number from which on rows of the ready table were written at `time` or later, about: numbers and times rise together, but for
 * transactions that overlap. Some thirty looks at an index find it among all that is ready.
 * @param first the first row with this number or a higher one
 */
export async function seekTime(
  time: number,
  { from, to }: { from: bigint; to: bigint },
  first: (seq: bigint) => Promise<NumberedRow | undefined>,
): Promise<bigint> {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) / 2n;
    const row = await first(middle);
    if (row === undefined || row.seq >= high || row.createdAt >= time) high = middle;
    else low = row.seq + 1n;
  }
  return low;
}

/** Milliseconds by which the clock of an application may differ from the database's, and an insert may take. */
const BEFORE = 60_000;
const AFTER = 600_000;

/** When rows of these ids were written, unless a caller made them up; `undefined`: they do not tell. */
export function writtenBetween(ids: readonly string[]): { from: number; to: number } | undefined {
  const times = ids.map(timeOfUuidV7);
  if (times.includes(undefined)) return undefined;
  return { from: Math.min(...(times as number[])) - BEFORE, to: Math.max(...(times as number[])) + AFTER };
}
