import { compareSeq } from '../../outbox-message.js';
import { STATEMENT_TIMEOUT } from '../../store/database-errors.js';
import type { ReadPosition } from '../../store/ready-store.js';
import type { Heads } from './low-water-mark.js';
import { Reach } from './reach.js';

interface Read {
  readonly positions: readonly ReadPosition[];
  /** The last number that had been given out before it, if that is known. */
  readonly last: string | undefined;
  /** That it returned. */
  readonly rows: number;
  readonly ms: number;
}

/**
 * How much one read covers of buckets whose heads are far below the last number that was given out: they were just leased,
 * the connection is another one, or something of them was given back. While somebody holds a snapshot, rows that are gone may stand
 * in between by the million, and a read walks over each. So such a read has a time limit. Where that is reached, the next
 * ones cover less: fewer numbers, upwards from the heads, or fewer buckets where the end of a range is no end for the server. A
 * bucket of which nothing more is there is not read from below again.
 */
export class CatchUp {
  /** Buckets of one read. */
  buckets = Infinity;
  /** Numbers of one read, in each bucket; `undefined`: all. */
  private reach: Reach | undefined;
  /** Milliseconds. */
  private limit = LIMIT;
  /** Some bucket was not read to its end, and not for its rows. */
  isOn = false;

  /**
   * @param byNumber whether the server may be asked for a part of a bucket
   * @param near numbers between a head and the last number that cost milliseconds, also if all of their rows are gone
   */
  constructor(
    readonly byNumber: boolean,
    readonly near = 65_536n,
  ) {}

  /** @param last the last number that was given out, if that is known */
  position(bucket: number, after: string, last: string | undefined): ReadPosition {
    if (this.reach === undefined) return { bucket, after };
    // None goes to its end: what has come since the last answer is as much as it likes.
    const upTo = BigInt(after) + this.reach.width;
    return { bucket, after, upTo: last === undefined || upTo < BigInt(last) ? String(upTo) : last };
  }

  /**
   * Milliseconds after which the server gives up a read of these.
   * @param full buckets that have rows right above their heads
   */
  limitOf(positions: readonly ReadPosition[], last: string | undefined, full: ReadonlySet<number>): number | undefined {
    const isLimited = ({ bucket, after }: ReadPosition): boolean => this.isFar(after, last) && !full.has(bucket);
    return this.byNumber && positions.some(isLimited) ? this.limit : undefined;
  }

  /** A read of these was given up after so many milliseconds. The smallest one gets more time instead: the server is busy. */
  gaveUp(positions: readonly ReadPosition[], ms: number): void {
    this.isOn = true;
    if (!this.byNumber) this.buckets = Math.max(1, Math.floor(positions.length / 2));
    else if (this.reach === undefined) this.reach = new Reach(GOAL, this.near);
    else if (!this.reach.cancelled(ms)) this.limit = Math.min(2 * this.limit, STATEMENT_TIMEOUT);
  }

  /**
   * A read came to its end.
   * @param heads of all buckets
   * @param isWhole of a bucket, whether all in its range was returned
   * @returns where the heads are of buckets of which nothing more is there
   */
  came({ positions, last, rows, ms }: Read, heads: Heads, isWhole: (bucket: number) => boolean): Map<number, string> {
    const ends = new Map<number, string>();
    if (last === undefined) return ends; // the next one knows it
    if (positions.length >= this.buckets && ms < STATEMENT_TIMEOUT / 8) this.buckets *= 2;
    this.isOn = positions.length >= this.buckets;
    for (const { bucket, after, upTo } of positions) {
      if (upTo === undefined && !this.isFar(after, last)) continue;
      this.isOn ||= upTo !== undefined && upTo !== last;
      if (isWhole(bucket)) ends.set(bucket, upTo ?? last);
    }
    if (this.isOn && ends.size > 0) this.reach?.took(ms, rows * A_ROW); // it was cut where it was to be
    if (this.reach === undefined || this.isOn) return ends;
    // A read of one bucket says nothing of the others.
    if ([...heads].some(([bucket, head]) => compareSeq(ends.get(bucket) ?? head, last) < 0)) return ends;
    this.reach = undefined;
    this.limit = LIMIT;
    return ends;
  }

  /** Before the first read nobody knows. */
  private isFar(after: string, last: string | undefined): boolean {
    return last === undefined ? after === '0' : BigInt(last) - BigInt(after) > this.near;
  }
}

/** Milliseconds that a read should take, and at most; and for each row. */
const GOAL = 20;
const LIMIT = 50;
const A_ROW = 0.05;
