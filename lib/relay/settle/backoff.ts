/**
 * Delay before the next try: exponential with full jitter, `random · min(max, initial · 2^(attempts-1))`.
 *
 * With initial 1 s and max 5 m the upper ends are 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300 … s; the mean is half of that.
 *
 * @param attempts failures charged so far, this one included; 1 or more
 * @param random 0 ≤ x < 1
 * @returns whole milliseconds, at least 1
 */
export function backoff(attempts: number, initial: number, max: number, random: number): number {
  // 2^30 · 1 ms is 12 days: past any sensible cap, and far from where a double loses integers.
  const ceiling = Math.min(max, initial * 2 ** Math.min(attempts - 1, 30));
  return Math.max(1, Math.round(ceiling * random));
}
