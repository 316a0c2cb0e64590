import { systemClock } from '../../dispatch/clock.js';

/** The end of one publish: a timer of its own, or the relay's signal, whichever comes first. */
export class Deadline {
  passed = false;
  /** @internal */ readonly end: number;
  /** @internal */ readonly cancel: (() => void) | undefined;
  /** @internal */ readonly listeners = new Set<() => void>();
  /** @internal */ readonly pass = (): void => {
    if (this.passed) return;
    this.passed = true;
    for (const listener of this.listeners) listener();
  };

  constructor(
    /** @internal */ readonly signal: AbortSignal,
    timeout = Infinity,
  ) {
    this.end = systemClock.monotonic() + timeout;
    if (timeout !== Infinity) this.cancel = systemClock.after(timeout, this.pass);
    if (signal.aborted) this.pass();
    else signal.addEventListener('abort', this.pass, { once: true });
  }

  /** Milliseconds, at least 1. */
  get left(): number {
    return Math.max(1, Math.ceil(Math.min(this.end - systemClock.monotonic(), 0x7fffffff)));
  }

  /** Calls `listener` when the deadline passes, now if it has; the result takes the listener away. */
  onPass(listener: () => void): () => void {
    if (this.passed) listener();
    else this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  dispose(): void {
    this.cancel?.();
    this.signal.removeEventListener('abort', this.pass);
    this.listeners.clear();
  }
}
