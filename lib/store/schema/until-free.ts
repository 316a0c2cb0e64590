import { OutboxError } from '../../outbox.errors.js';
import { pause, systemClock } from '../../time/clock.js';

const TRIES = 3;

export interface Patience {
  /** What is changed, in words. */
  readonly what: string;
  /** Milliseconds for which the table is asked for at a time: whoever comes meanwhile waits behind. */
  readonly lockTimeout: number;
  /** Default 3. */
  readonly tries?: number;
  /** Whether an error says that the table was not free in time. */
  isLockTimeout(error: unknown): boolean;
}

/**
 * A change of a table that others use. It waits for a lock timeout at most, and then lets those who queued behind it go first,
 * for as long.
 * @throws OutboxError `TIMEOUT`
 */
export async function untilFree<T>(patience: Patience, change: () => Promise<T>): Promise<T> {
  const { lockTimeout, tries = TRIES } = patience;
  for (let attempt = 1; ; attempt++) {
    try {
      return await change();
    } catch (error) {
      if (!patience.isLockTimeout(error)) throw error;
      if (attempt >= tries) throw neverFree(patience, error);
    }
    await pause(systemClock, lockTimeout * (1 + Math.random()));
  }
}

function neverFree({ what, tries = TRIES, lockTimeout }: Patience, cause: unknown): OutboxError {
  const text = `${what}: transactions of others had the table, ${tries} times for ${lockTimeout} ms.`;
  return new OutboxError('TIMEOUT', text, { cause, hint: 'End those that stay open, or try again later.' });
}
