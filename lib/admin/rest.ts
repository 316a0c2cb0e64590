import { systemClock } from '../time/clock.js';

/** Until the time is over, or the action is to end. */
export async function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (ms <= 0 || signal?.aborted === true) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = systemClock.after(ms, end);
    signal?.addEventListener('abort', end);
  });
}
