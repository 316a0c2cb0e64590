import { timeOfUuidV7 } from '../message/uuid-v7.js';

/** A row of the ready table, by its number. */
export interface NumberedRow {
  readonly seq: bigint;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** Milliseconds within which a place need not be told more exactly. */
const EXACT = 1_000;
/** Part of a span by which a guess aims beside the time, so that the time ends up between two guesses. */
const BESIDE = 1 / 256;

/**
 * The number from which on rows of the ready table were written at `time` or later, about: numbers and times rise together, but for
 * transactions that overlap. Every other look guesses by the times at both ends, and the others halve: some eight find it.
 * @param side what is wanted where the last second is not looked at: the number before it, or behind it
 * @param at the first row with this number or a higher one
 */
export async function seekTime(
  time: number,
  { first, last, side }: { first: NumberedRow; last: NumberedRow; side: 'before' | 'behind' },
  at: (seq: bigint) => Promise<NumberedRow | undefined>,
): Promise<bigint> {
  if (first.createdAt >= time) return first.seq;
  if (last.createdAt < time) return last.seq + 1n;
  let [low, high] = [first, last]; // it is behind `low`, and `high` or before it
  for (let turn = 0; high.seq - low.seq > 1n && high.createdAt - low.createdAt > EXACT; turn++) {
    const middle = between(low, high, turn % 2 === 1 ? 0.5 : guess(low, high, time, turn % 4 === 0));
    const row = await at(middle);
    if (row === undefined || row.seq >= high.seq) high = { seq: middle, createdAt: high.createdAt };
    else if (row.createdAt >= time) high = { seq: middle, createdAt: row.createdAt };
    else low = row;
  }
  return side === 'before' ? low.seq + 1n : high.seq;
}

/** The part of the way from one row to the other. */
function guess(low: NumberedRow, high: NumberedRow, time: number, isBefore: boolean): number {
  return (time - low.createdAt) / (high.createdAt - low.createdAt) + (isBefore ? -BESIDE : BESIDE);
}

/** A number behind the one and before the other. */
function between({ seq: low }: NumberedRow, { seq: high }: NumberedRow, part: number): bigint {
  const middle = low + BigInt(Math.round(Number(high - low) * part));
  if (middle <= low) return low + 1n;
  return middle >= high ? high - 1n : middle;
}

/** Milliseconds around the time in an id within which its row is looked for. */
export interface Reach {
  /** The clock of an application may be ahead of the database's. */
  readonly before: number;
  /** It may be behind, and an insert may take its time. */
  readonly after: number;
  /** Nothing is published before it is written, and most of it soon after. */
  readonly published: number;
}
export const CLOSE: Reach = { before: 2_000, after: 10_000, published: 60_000 };
export const WIDE: Reach = { before: 60_000, after: 600_000, published: 3_600_000 };

/** When rows of these ids were written, unless a caller made them up; `undefined`: they do not tell. */
export function writtenBetween(
  ids: readonly string[],
  { before, after }: Reach = WIDE,
): { from: number; to: number } | undefined {
  const times = ids.map(timeOfUuidV7);
  if (times.includes(undefined)) return undefined;
  return { from: Math.min(...(times as number[])) - before, to: Math.max(...(times as number[])) + after };
}

/** Milliseconds between two ids that are looked for in one place. */
const TOGETHER = 60_000;

/** Those of the ids that tell a time, in groups of near ones. */
export function writtenTogether(ids: readonly string[]): string[][] {
  const timed = ids.flatMap((id) => {
    const time = timeOfUuidV7(id);
    return time === undefined ? [] : [{ id, time }];
  });
  timed.sort((one, other) => one.time - other.time);
  const groups: string[][] = [];
  let last = -Infinity;
  for (const { id, time } of timed) {
    if (time - last > TOGETHER) groups.push([]);
    groups.at(-1)?.push(id);
    last = time;
  }
  return groups;
}
