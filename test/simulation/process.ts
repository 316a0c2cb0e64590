import type { Clock } from '../../lib/time/clock.js';
import type { Life, World } from './world.js';

/** A process as the outside can treat it: killed, frozen, with clocks of its own that may be wrong. */
export class SimulatedProcess implements Life, Clock {
  dead = false;
  frozenUntil = 0;

  constructor(
    readonly world: World,
    readonly name: string,
    /** Milliseconds by which its wall clock is wrong. */
    public skew: number,
    /** What its monotonic clock showed when the world began. */
    public booted: number,
  ) {}

  monotonic(): number {
    return this.booted + this.world.now;
  }
  wall(): number {
    return EPOCH + this.skew + this.world.now;
  }
  after(ms: number, action: () => void): () => void {
    return this.world.in(ms, action, this);
  }

  freeze(ms: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.world.now + ms);
  }
  /** As a laptop does: the monotonic clock stands still as well. Timers go by it, and so come later. */
  sleep(ms: number): void {
    this.freeze(ms);
    this.booted -= ms;
  }
}

export const EPOCH = Date.UTC(2030, 0, 1);
