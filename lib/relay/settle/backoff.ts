import type { RetryPolicy } from '../../outbox.options.js';

/** What the delays of a message follow; milliseconds. */
export type Delays = Pick<RetryPolicy, 'initial' | 'max' | 'jitter'> & {
  readonly backoff: 'exponential' | 'fixed';
};

/** Which part of the longest delay is waited for; 0 ≤ random < 1. */
const SHARE: Readonly<Record<RetryPolicy['jitter'], (random: number) => number>> = {
  full: (random) => random,
  equal: (random) => 0.5 + random / 2,
  none: () => 1,
};

/**
 * Delay before the next try. The longest is `min(max, initial · 2^(attempts-1))`, or `min(max, initial)` where it is fixed;
 * jitter takes a part of it, and nothing is shorter than 1 ms.
 *
 * With initial 1 s and max 5 m the upper ends are 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300 … s; with full jitter the mean
 * is half of that.
 *
 * @param attempts failures charged so far, this one included; 1 or more
 * @param random 0 ≤ x < 1
 * @returns whole milliseconds
 */
export function backoff(attempts: number, delays: Delays, random: number): number {
  const { initial, max } = delays;
  // 2^30 · 1 ms is 12 days: past any sensible cap, and far from where a double loses integers.
  const growth = delays.backoff === 'fixed' ? 1 : 2 ** Math.min(attempts - 1, 30);
  return Math.max(1, Math.round(Math.min(max, initial * growth) * SHARE[delays.jitter](random)));
}
