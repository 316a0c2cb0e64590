import type { Clock } from '../../lib/time/clock.js';
import type { PauseScope } from '../../lib/store/pauses/pause-store.js';
import type { Life, World } from './world.js';

/** A process as the outside can treat it: killed, frozen, with clocks of its own that may be wrong. */
export class SimulatedProcess implements Life, Clock {
  dead = false;
  frozenUntil = 0;
  asleepUntil = 0;
  /** What the last answer to a heartbeat called paused, and since when this process knows. */
  readonly knowsPaused = new Map<string, { readonly scope: PauseScope; readonly since: number }>();

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

  /** The answer to a heartbeat has arrived. */
  hears(paused: readonly PauseScope[]): void {
    const before = new Map(this.knowsPaused);
    this.knowsPaused.clear();
    for (const scope of paused) {
      const name = JSON.stringify([scope.transport, scope.topic, scope.key]);
      this.knowsPaused.set(name, before.get(name) ?? { scope, since: this.world.now });
    }
  }

  freeze(ms: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.world.now + ms);
  }
  /** As a laptop does: the monotonic clock stands still as well. Timers go by it, and so come later. */
  sleep(ms: number): void {
    const { now } = this.world;
    const begins = Math.max(now, this.asleepUntil); // who sleeps already sleeps on
    this.asleepUntil = Math.max(begins, now + ms);
    this.booted -= this.asleepUntil - begins;
    this.freeze(ms);
  }
}

export const EPOCH = Date.UTC(2030, 0, 1);
