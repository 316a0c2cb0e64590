import { inCleanScope } from './async-scope.js';
import { untraced } from './untraced.js';
import type { Clock } from './clock.js';

/**
 * Repeats one `runOnce`: start, nudge, stop. Runs never overlap; a nudge during a run makes one more run follow at once;
 * an error becomes a delay. `stop` resolves when the run in hand is over. May be started again after that. Whoever nudges,
 * no run is in his context.
 */
export class Loop {
  running = false;
  active: Promise<void> | undefined;
  private nudged = false;
  cancelTimer: (() => void) | undefined;
  private dueAt = Infinity;
  /** Milliseconds by which the last run came after its time: the process stood still, or was busy. */
  lateBy = 0;

  constructor(
    readonly clock: Clock,
    /** One run; resolves to the delay until the next one, milliseconds (0: at once; `Infinity`: when it is nudged). */
    readonly runOnce: () => Promise<number>,
    /** A run threw; returns the delay until the next one. Must not throw. */
    readonly onError: (error: unknown) => number,
  ) {}

  /** @param delay milliseconds until the first run; `Infinity`: when it is nudged. */
  start(delay = 0): void {
    if (this.running) return;
    this.running = true;
    if (this.active === undefined) this.schedule(delay);
  }

  /** Runs now, or right after the run in hand. */
  nudge(): void {
    if (!this.running) return;
    this.nudged = true;
    if (this.active !== undefined) return;
    this.cancelTimer?.();
    this.run();
  }

  /** Resolves after a whole run that began after this call. */
  async runNow(): Promise<void> {
    const until = this.runs + (this.active === undefined ? 1 : 2);
    this.nudge();
    while (this.running && this.runs < until) {
      if (this.active === undefined) this.nudge(); // stopped and started again meanwhile
      await this.active;
    }
  }
  private runs = 0;

  /** Runs in `ms` at the latest. */
  within(ms: number): void {
    if (!this.running) return;
    if (ms <= 0) return this.nudge();
    this.wantedAt = Math.min(this.wantedAt, this.clock.monotonic() + ms);
    if (this.active === undefined && this.wantedAt < this.dueAt) this.schedule(ms);
  }
  private wantedAt = Infinity;

  async stop(): Promise<void> {
    this.running = false;
    this.nudged = false;
    this.cancelTimer?.();
    this.cancelTimer = undefined;
    await this.active;
  }

  private schedule(delay: number): void {
    this.cancelTimer?.();
    this.dueAt = Math.min(this.clock.monotonic() + delay, this.wantedAt);
    if (this.dueAt === Infinity) return;
    delay = this.dueAt - this.clock.monotonic();
    this.cancelTimer = this.clock.after(delay, () => {
      // A timer may fire a moment early: the run is for that wish all the same, and what is wished meanwhile is another.
      if (this.wantedAt <= this.dueAt) this.wantedAt = Infinity;
      this.run();
    });
  }

  private run(): void {
    this.cancelTimer = undefined;
    this.nudged = false;
    this.lateBy = this.dueAt === Infinity ? 0 : Math.max(0, this.clock.monotonic() - this.dueAt);
    this.dueAt = Infinity;
    if (this.wantedAt <= this.clock.monotonic()) this.wantedAt = Infinity;
    this.active = BEGINNING; // else who nudges in it, before it first waits, would begin a second one
    this.active = inCleanScope(() => untraced(() => this.turn()));
  }

  private turn(): Promise<void> {
    return this.runOnce()
      .catch((error: unknown) => this.onError(error))
      .then((delay) => {
        this.active = undefined;
        this.runs += 1;
        if (!this.running) return;
        if (this.nudged || delay <= 0) this.run();
        else this.schedule(delay);
      });
  }
}

const BEGINNING = Promise.resolve();
