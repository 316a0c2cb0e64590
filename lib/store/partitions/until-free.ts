import { OutboxError } from '../../outbox.errors.js';
import { pause, systemClock } from '../../time/clock.js';

/** Times that a table is asked for. Whoever comes meanwhile waits behind each of them. */
const TRIES = 3;

/**
 * A change of a table that others use. It waits for a lock timeout at most, and then lets those who queued behind it go first,
 * for as long.
 * @param isLockTimeout whether an error says that the table was not free in time
 * @throws OutboxError `TIMEOUT`
 */
export async function untilFree<T>(
  what: string,
  lockTimeout: number,
  isLockTimeout: (error: unknown) => boolean,
  change: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await change();
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      if (attempt === TRIES) throw neverFree(what, lockTimeout, error);
    }
    await pause(systemClock, lockTimeout * (1 + Math.random()));
  }
}

function neverFree(what: string, lockTimeout: number, cause: unknown): OutboxError {
  const text = `${what}: transactions of others had the table, ${TRIES} times for ${lockTimeout} ms.`;
  return new OutboxError('TIMEOUT', text, { cause, hint: 'End those that stay open, or wait for the next pass.' });
}
