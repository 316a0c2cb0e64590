import { inCleanScope } from './async-scope.js';

/** SEAM: time. With `loop.ts` the only place that touches timers; tests and the simulation bring their own. */
export interface Clock {
  /** Milliseconds that only grow while the process runs; may stand still while the machine sleeps. */
  monotonic(): number;
  /** Milliseconds since the epoch by this machine's clock. Never used for what is due: the database decides that. */
  wall(): number;
  /** Runs `action` once after `ms`, in nobody's context; the returned function cancels it. Never keeps the process alive. */
  after(ms: number, action: () => void): () => void;
}

/**
 * Milliseconds since now, by whichever clock went further: the monotonic one may stand still while a machine sleeps, the
 * wall clock may be set back. For ends that must not be missed: a timer may fire late, after what it was to prevent.
 */
export function stopwatch(clock: Clock): () => number {
  const [monotonic, wall] = [clock.monotonic(), clock.wall()];
  return () => Math.max(clock.monotonic() - monotonic, clock.wall() - wall);
}

/**
 * Waits for `work`, but no longer than `ms`; it goes on by itself then, and what becomes of it is nobody's business.
 * @returns whether it was done in time; its rejection passes through
 */
export async function within(clock: Pick<Clock, 'after'>, ms: number, work: Promise<unknown>): Promise<boolean> {
  let cancel = (): void => {};
  const late = new Promise<boolean>((resolve) => {
    cancel = clock.after(ms, () => resolve(false));
  });
  return Promise.race([work.then(() => true), late]).finally(cancel);
}

export function pause(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}

/** Longest delay a Node timer takes; beyond it fires at once. */
const MAX_TIMER = 2 ** 31 - 1;

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  after(ms, action) {
    const timer = inCleanScope(() => setTimeout(action, Math.min(Math.max(0, Math.ceil(ms)), MAX_TIMER)));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
