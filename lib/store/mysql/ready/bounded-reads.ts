import { waitedTooLong } from '../../database-errors.js';

/**
 * Which way ranges of the ready table are read. InnoDB compares with the end of a range only rows that are there. While a
 * held snapshot keeps rows that are gone, a read of one walks over them past its end, and on through every bucket behind it, up to
 * the next row that is there. A read of a whole bucket ends with the bucket. It begins with its first row, so that it
 * is the way where the other one was slow, and for 50 times as long. On a server that is far away, or under a backlog, it is not
 * quicker: then it is tried once in as long.
 */
export class BoundedReads {
  until = -Infinity;
  /** Milliseconds that a read of ranges took, when it was slow. */
  private slow = Infinity;
  /** Not tried before, unless a read of ranges takes twice what the last try took. */
  private restUntil = -Infinity;
  private tried = 0;

  constructor(
    /** Monotonic. */
    readonly now: () => number,
  ) {}

  get areOn(): boolean {
    return this.now() < this.until;
  }

  /** @param work reads, by whole buckets or by ranges */
  async measure<T>(work: (bounded: boolean) => Promise<readonly T[]>): Promise<readonly T[]> {
    const began = this.now();
    const bounded = this.areOn;
    try {
      const rows = await work(bounded);
      this.took(bounded, this.now() - began - rows.length * A_ROW);
      return rows;
    } catch (error) {
      if (waitedTooLong(error)) this.took(bounded, this.now() - began);
      throw error;
    }
  }

  /** @param ms that one statement took */
  took(bounded: boolean, ms: number): void {
    const now = this.now();
    const long = Math.min(ms * TIMES, LONGEST);
    if (bounded) {
      if (ms <= this.slow) return;
      this.until = -Infinity;
      this.restUntil = now + long;
      this.tried = ms;
    } else if (ms > SLOW && (now >= this.restUntil || ms > 2 * this.tried)) {
      this.slow = ms;
      this.until = now + long;
    }
  }
}

/** Milliseconds: what a read takes in which nothing is in the way, on a server that is busy or far away. */
const SLOW = 20;
/** And for each row. */
const A_ROW = 0.05;
/** Times what it took: 2 % of the time goes into trying. */
const TIMES = 50;
/** Milliseconds. */
const LONGEST = 30_000;
