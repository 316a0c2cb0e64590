import { untilNoConflict } from '../bulk-store.js';
import type { SqlConnection, SqlExecutor } from '../executor.js';

/** An operator's rows are also a relay's, and another operator's: the victim of a deadlock is undone, and runs again. */
export function inTransaction<T>(connection: SqlConnection, work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
  return untilNoConflict(() => connection.transaction(work));
}
