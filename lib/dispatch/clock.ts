/** SEAM: time. With `loop.ts` the only place that touches timers; tests and the simulation bring their own. */
export interface Clock {
  /** Milliseconds that only grow while the process runs; may stand still while the machine sleeps. */
  monotonic(): number;
  /** Milliseconds since the epoch by this machine's clock. Never used for what is due: the database decides that. */
  wall(): number;
  /** Runs `action` once after `ms`; the returned function cancels it. Never keeps the process alive. */
  after(ms: number, action: () => void): () => void;
}

/** Longest delay a Node timer takes; beyond it fires at once. */
const MAX_TIMER = 2 ** 31 - 1;

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  after(ms, action) {
    const timer = setTimeout(action, Math.min(Math.max(0, ms), MAX_TIMER));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
