import type { Clock } from '../time/clock.js';

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly action: () => void;
}

/** A clock that only moves when it is told: loops, backoff of polls and deadlines without waiting. */
export class FakeClock implements Clock {
  /** @internal */ elapsed = 0;
  /** @internal */ created = 0;
  /** @internal */ readonly timers = new Set<Timer>();

  constructor(/** Milliseconds since the epoch at the start. */ readonly start: number = Date.UTC(2030, 0, 1)) {}

  monotonic(): number {
    return this.elapsed;
  }
  wall(): number {
    return this.start + this.elapsed;
  }
  after(ms: number, action: () => void): () => void {
    const timer: Timer = { at: this.elapsed + Math.max(0, ms), order: this.created++, action };
    this.timers.add(timer);
    return () => {
      this.timers.delete(timer);
    };
  }

  /** Timers that wait. */
  get pending(): number {
    return this.timers.size;
  }
  /** Milliseconds until the next timer, `undefined` without one. */
  get nextIn(): number | undefined {
    const next = this.next();
    return next === undefined ? undefined : next.at - this.elapsed;
  }

  /** Lets `ms` pass: timers fire in order at their time, and what they start may set new ones. */
  async advance(ms: number): Promise<void> {
    const until = this.elapsed + ms;
    for (let timer = this.next(); timer !== undefined && timer.at <= until; timer = this.next()) {
      this.elapsed = Math.max(this.elapsed, timer.at);
      this.timers.delete(timer);
      timer.action();
      await settled();
    }
    this.elapsed = until;
    await settled();
  }

  /** @internal */
  next(): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.timers) {
      if (first === undefined || timer.at < first.at || (timer.at === first.at && timer.order < first.order))
        first = timer;
    }
    return first;
  }
}

/** Lets promise chains without I/O run to their end. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
}
