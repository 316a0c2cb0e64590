import { OutboxTransactionConflictError } from '../outbox.errors.js';
import type { SqlConnection, SqlExecutor } from './executor.js';

/** SQLSTATE: a deadlock, and a serialization failure. */
const CONFLICTS: ReadonlySet<unknown> = new Set(['40P01', '40001']);
/** `ER_LOCK_DEADLOCK`. */
export const DEADLOCK = 1213;
/** InnoDB rolls back the whole transaction; on MariaDB also for a row that is newer than the snapshot. */
export const ENDS_TRANSACTION: ReadonlySet<unknown> = new Set([DEADLOCK, 1020]);
const TRIES = 4;

export const errnoOf = (error: unknown): unknown => (error as { errno?: unknown } | null)?.errno;

/**
 * Databases choose victims of deadlocks; each of our units of work was undone as a whole, and can simply run again, at once. A row
 * that somebody else holds goes back to whoever asked: he tells it, and what waits behind on this connection gets in.
 */
export async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === TRIES || !isConflict(error)) throw error;
    }
  }
}

function isConflict(error: unknown): boolean {
  if (error instanceof OutboxTransactionConflictError || errnoOf(error) === DEADLOCK) return true;
  return CONFLICTS.has((error as { code?: unknown } | null)?.code);
}

export function inTransaction<T>(connection: SqlConnection, work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
  return retried(() => connection.transaction(work));
}
