import { compareSeq } from '../../outbox-message.js';
import type { ReadPosition } from '../../store/ready-store.js';
import type { Heads } from './low-water-mark.js';
import { Reach } from './reach.js';

/**
 * Buckets that are read from below a number up to which others were looked at, or read, before. Where a row stands below rows
 * that are gone, and a held snapshot keeps these in the index, a read to the end walks over all of them, and each later
 * one again until a newer row comes. So a read goes up by milliseconds to that number, and the head with it where nothing is.
 */
export class Walks {
  /** Of each bucket where its walk ends. */
  readonly ends = new Map<number, string>();
  private readonly reach = new Reach(SLICE, FIRST);

  get isOn(): boolean {
    return this.ends.size > 0;
  }

  begin(bucket: number, upTo: string): void {
    if (!this.isOn) this.reach.restart();
    const end = this.ends.get(bucket);
    if (end === undefined || compareSeq(end, upTo) < 0) this.ends.set(bucket, upTo);
  }

  /** The bucket was read up to `head`, and is read from `seq` on. One read gets over a few numbers. */
  wentBack(bucket: number, seq: string, head: string | undefined): void {
    if (head !== undefined && BigInt(head) - BigInt(seq) > this.reach.first) this.begin(bucket, head);
  }

  forget(bucket: number): void {
    this.ends.delete(bucket);
  }

  bounded(bucket: number, after: string): ReadPosition {
    const end = this.ends.get(bucket);
    if (end === undefined) return { bucket, after };
    const upTo = BigInt(after) + this.reach.width;
    return { bucket, after, upTo: upTo < BigInt(end) ? String(upTo) : end };
  }

  /** Milliseconds after which a read is given up: one that grew wide where nothing is may meet all that is gone. */
  limitOf(positions: readonly ReadPosition[]): number | undefined {
    return this.reach.width > UNTIMED && this.isIn(positions) ? LIMIT : undefined;
  }

  /**
   * These were read.
   * @param rows that were returned
   * @param isWhole of a bucket, whether all in it was returned
   * @returns until where the buckets are read that nothing more is in
   */
  read(positions: readonly ReadPosition[], rows: number, ms: number, isWhole: (bucket: number) => boolean): Heads {
    const points = new Map<number, string>();
    for (const { bucket, upTo } of positions) {
      if (upTo === undefined || !this.ends.has(bucket) || !isWhole(bucket)) continue;
      points.set(bucket, upTo);
      if (upTo === this.ends.get(bucket)) this.ends.delete(bucket);
    }
    // A read that brings all that it may is as short as it can be.
    if (points.size > 0) this.reach.took(ms, rows * A_ROW);
    return points;
  }

  /** @returns whether less may be asked for */
  cancelled(positions: readonly ReadPosition[], ms: number): boolean {
    return this.isIn(positions) && this.reach.cancelled(ms);
  }

  private isIn(positions: readonly ReadPosition[]): boolean {
    return positions.some((position) => isBounded(position) && this.ends.has(position.bucket));
  }
}

export const isBounded = ({ upTo }: ReadPosition): boolean => upTo !== undefined;

/** Milliseconds of a read, for which others stand still; and at most. */
const SLICE = 5;
const LIMIT = 50;
/** Milliseconds for each row that comes. */
const A_ROW = 0.05;
/** Numbers that the first read covers. */
const FIRST = 4_096n;
/** Numbers that are read without a limit, in one way to the server: some 50 ms if all of their rows are gone. */
const UNTIMED = 65_536n;
