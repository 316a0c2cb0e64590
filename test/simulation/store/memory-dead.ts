import { placeName } from './memory-place.js';
import type { ReadyRow } from './memory-rows.js';

/** What rows that are gone cost while somebody holds a snapshot. */
export interface HeldSnapshot {
  /** A message stands for so many, whose numbers come before its own. */
  readonly each: number;
  /** Numbers that the first slice of a full scan covers; absent: as in production. */
  readonly firstSlice?: bigint;
}

/**
 * Rows that are gone since a snapshot is held, and stand in the index for as long. A statement walks over all of them that lie
 * in its range; what returns rows by their place walks over none.
 */
export class DeadRows {
  /** `transport bucket` → their numbers. @internal */ readonly places = new Map<string, number[]>();
  /** By the statement that takes effect now. @internal */ walked = 0;

  constructor(
    readonly each: number,
    readonly floor: 'snapshot' | 'probe' = 'probe',
  ) {}

  add({ transport, bucket, seq }: ReadyRow): void {
    const name = placeName(transport, bucket);
    const rows = this.places.get(name);
    if (rows === undefined) this.places.set(name, [Number(seq)]);
    else rows.push(Number(seq));
  }

  /** The table was emptied. */
  clear(): void {
    this.places.clear();
  }

  /** A statement reads what is behind `after`, up to and with `upTo`; absent: to the end. */
  walk(transport: number, bucket: number, after: string, upTo?: string): void {
    const [from, to] = [Number(after), upTo === undefined ? Infinity : Number(upTo)];
    for (const seq of this.places.get(placeName(transport, bucket)) ?? [])
      this.walked += Math.max(0, Math.min(seq, to) - Math.max(seq - this.each, from));
  }

  /** Whether the statement that takes effect now is given up after `ms`. */
  exceeds(operation: string, ms: number): boolean {
    const isTooLong = this.walked * this.timeOf(operation) > ms;
    if (isTooLong) this.walked = 0;
    return isTooLong;
  }

  /** @returns milliseconds that the statement takes, which took effect just now */
  cost(operation: string): number {
    const { walked } = this;
    this.walked = 0;
    return walked * this.timeOf(operation);
  }

  /** Of one row. @internal */ timeOf(operation: string): number {
    return A_DEAD_ROW * (operation === 'fetch' && this.floor === 'snapshot' ? A_SWEEP : (TIMES[operation] ?? 0));
  }
}

/** Milliseconds (PostgreSQL 15, measured). */
export const A_DEAD_ROW = 0.0008;
/** How often it is paid by a statement that would be cancelled if it were one for everything. */
export const A_SWEEP = 2.5;
/** By statement. The first read of a take-over is one statement where reads prove nothing, and must get through: with 1.25 and more it would not. */
const TIMES: Readonly<Record<string, number>> = { fetch: 1, lockRows: 1, sweep: A_SWEEP, probe: A_SWEEP };
