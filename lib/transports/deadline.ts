import { stopwatch, systemClock } from '../time/clock.js';

/** The end of one publish: a timer of its own, or the relay's signal, whichever comes first. */
export class Deadline {
  /** It has passed, and its listeners were called. */
  isOver = false;
  /** The signal ended it while there was time left. */
  isCutShort = false;
  private readonly elapsed = stopwatch(systemClock);
  private readonly cancel: (() => void) | undefined;
  private readonly listeners = new Set<() => void>();
  private readonly pass = (): void => {
    if (this.isOver) return;
    this.isOver = true;
    this.isCutShort = this.signal.aborted && this.elapsed() < this.timeout;
    for (const listener of this.listeners) listener();
  };

  constructor(
    private readonly signal: AbortSignal,
    private readonly timeout = Infinity,
  ) {
    if (timeout !== Infinity) this.cancel = systemClock.after(timeout, this.pass);
    if (signal.aborted) this.pass();
    else signal.addEventListener('abort', this.pass, { once: true });
  }

  /** Also when the process stood still, and its timer has not fired yet: the listeners are called now, then. */
  get passed(): boolean {
    if (!this.isOver && this.elapsed() >= this.timeout) this.pass();
    return this.isOver;
  }

  /** Milliseconds, at least 1. */
  get left(): number {
    return Math.max(1, Math.ceil(Math.min(this.timeout - this.elapsed(), 0x7fffffff)));
  }

  /** Calls `listener` when the deadline passes, now if it has; the result takes the listener away. */
  onPass(listener: () => void): () => void {
    if (this.passed) listener();
    else this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Resolves after so many milliseconds, or when the deadline passes. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      let unlisten = (): unknown => undefined;
      const cancel = systemClock.after(ms, () => end());
      const end = (): void => {
        unlisten();
        cancel();
        resolve();
      };
      unlisten = this.onPass(end);
    });
  }

  dispose(): void {
    this.cancel?.();
    this.signal.removeEventListener('abort', this.pass);
    this.listeners.clear();
  }
}
