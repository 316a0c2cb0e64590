import type { Clock } from './clock.js';

/** Until the signal aborts, or the time is over. */
export function pauseUntil(signal: AbortSignal | undefined, clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal?.addEventListener('abort', end);
  });
}
