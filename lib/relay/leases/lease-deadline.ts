import { stopwatch, type Clock } from '../../time/clock.js';

/**
 * How long a lease is good for by this process's reckoning. Taken *before* the statement was sent, so that it ends before
 * the database's.
 */
export class LeaseDeadline {
  readonly elapsed: () => number;

  constructor(
    clock: Clock,
    readonly leaseMs: number,
  ) {
    this.elapsed = stopwatch(clock);
  }

  /** Milliseconds; negative when it is over. */
  get remaining(): number {
    return this.leaseMs - this.elapsed();
  }
}
