import type { Clock } from '../dispatch/clock.js';

/**
 * How long a lease is good for by this process's reckoning. Taken *before* the statement was sent, so that it ends before
 * the database's. The larger of monotonic and wall-clock elapsed counts: the monotonic clock may stand still while a
 * machine sleeps, the wall clock may be set back.
 */
export class LeaseDeadline {
  readonly monotonic: number;
  readonly wall: number;

  constructor(
    readonly clock: Clock,
    readonly leaseMs: number,
  ) {
    this.monotonic = clock.monotonic();
    this.wall = clock.wall();
  }

  /** Milliseconds; negative when it is over. */
  get remaining(): number {
    return this.leaseMs - Math.max(this.clock.monotonic() - this.monotonic, this.clock.wall() - this.wall);
  }
}
