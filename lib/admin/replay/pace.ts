import type { Clock } from '../../time/clock.js';

/** Holds work to so many pieces a second. Time that was lost is not made up for: no second has more. */
export class Pace {
  /** When the next pieces may come, by the monotonic clock. */ private next = -Infinity;

  constructor(
    readonly perSecond: number,
    readonly clock: Pick<Clock, 'monotonic'>,
  ) {}

  /** @returns milliseconds to wait before so many pieces are done */
  turn(pieces: number): number {
    const now = this.clock.monotonic();
    const begin = Math.max(now, this.next);
    this.next = begin + (pieces / this.perSecond) * 1_000;
    return begin - now;
  }
}
