import type { ReadRange } from '../../store/ready-store.js';

/**
 * How many numbers of `seq` one statement looks at, in each bucket. Rows that are gone stay in the index while anybody holds
 * an older snapshot, and a statement walks over each of them: so what it may take is bounded by what it covers, and the
 * next one covers less or more by what the last one took.
 */
export class Reach {
  width: bigint;
  private goal: number;
  /** Milliseconds of the quickest one: what any statement takes here, whatever it covers. */
  private least = Infinity;

  /**
   * @param most milliseconds that a statement should take
   * @param first numbers that the first one covers
   */
  constructor(
    readonly most: number,
    readonly first: bigint,
  ) {
    this.width = first;
    this.goal = most;
  }

  /** The upper ends of these ranges, and what is left below them. Few statements need more than one turn of this. */
  cut(ranges: readonly ReadRange[]): { now: readonly ReadRange[]; rest: ReadRange[] } {
    const rest: ReadRange[] = [];
    const now = ranges.map((range) => {
      const from = BigInt(range.upTo) - this.width;
      if (from <= BigInt(range.after)) return range;
      const after = from.toString();
      rest.push({ ...range, upTo: after });
      return { ...range, after };
    });
    return { now, rest };
  }

  /**
   * @param forRows milliseconds of it that went into rows which came
   * @returns milliseconds beyond what any statement takes
   */
  took(ms: number, forRows = 0): number {
    this.least = Math.min(this.least, ms);
    const walked = Math.max(0, ms - this.least - forRows);
    // Less than the first one covers is asked for only after a cancel: a busy server is no reason.
    if (walked > this.goal && this.width > this.first) this.width = larger(this.width / 2n, this.first);
    else if (walked < this.goal / 2 && this.width < MOST) this.width *= 2n;
    return walked;
  }

  /**
   * @param ms after which it was cancelled: the next ones stay well below that
   * @returns whether less may be asked for
   */
  cancelled(ms: number): boolean {
    this.goal = Math.min(this.goal, Math.max(this.most / 10, ms / 4));
    if (this.width <= LEAST) return false;
    this.width = larger(this.width / 8n, LEAST);
    return true;
  }

  restart(): void {
    this.goal = this.most;
    this.least = Infinity;
    if (this.width > this.first) this.width = this.first;
  }
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);
/** Numbers. */
const LEAST = 16n;
const MOST = 2n ** 62n;
