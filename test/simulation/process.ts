import type { Clock } from '../../lib/dispatch/clock.js';
import type { Life, World } from './world.js';

/** A process as the outside can treat it: killed, frozen, with a clock of its own that may be wrong. */
export class SimulatedProcess implements Life, Clock {
  dead = false;
  frozenUntil = 0;

  constructor(
    readonly world: World,
    readonly name: string,
    /** Milliseconds by which its wall clock is wrong. */
    readonly skew: number,
    /** What its monotonic clock showed when the world began. */
    readonly booted: number,
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
}

export const EPOCH = Date.UTC(2030, 0, 1);
