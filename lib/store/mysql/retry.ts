import type { SqlConnection, SqlExecutor } from '../executor.js';

/** What mysql2 leaves on an error; `errno` and `sqlState` are the server's. */
export interface MysqlError extends Error {
  code?: string;
  errno?: number;
  sqlState?: string;
  fatal?: boolean;
}

export const DEADLOCK = 1213;
export const LOCK_WAIT_TIMEOUT = 1205;
/** MariaDB with `innodb_snapshot_isolation`: a row has changed since the snapshot. */
export const SNAPSHOT_TOO_OLD = 1020;
const TRIES = 4;

export const errnoOf = (error: unknown): unknown => (error as { errno?: unknown } | null)?.errno;

/**
 * InnoDB picks victims of deadlocks; each of our units of work can simply run again, at once. A row that somebody else
 * holds goes back to whoever asked: he tells it, and what waits behind on this connection gets in.
 */
export async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === TRIES || errnoOf(error) !== DEADLOCK) throw error;
    }
  }
}

export function inTransaction<T>(connection: SqlConnection, work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
  return retried(() => connection.transaction(work));
}
