import { isOfTheRow } from './database-errors.js';
import type { SqlExecutor } from './executor.js';
import type { Refused } from './parked-store.js';
import type { SettledMessage } from './ready-store.js';
import { statement } from './sql.js';

const SAVEPOINT = statement(undefined, 'savepoint outbox_rows');
const RELEASE = statement(undefined, 'release savepoint outbox_rows');
const UNDO = statement(undefined, 'rollback to savepoint outbox_rows');

/**
 * Writes rows in a transaction that must not fail for one of them: what fails for a reason of its own is found in halves and
 * left out. What speaks of the database is thrown.
 */
export async function writeOrRefuse<T>(
  tx: SqlExecutor,
  entries: readonly T[],
  write: (entries: readonly T[]) => Promise<unknown>,
): Promise<Refused<T>[]> {
  if (entries.length === 0) return [];
  await tx.run(SAVEPOINT.bind());
  try {
    await write(entries);
    await tx.run(RELEASE.bind());
    return [];
  } catch (error) {
    if (!isOfTheRow(error)) throw error;
    await tx.run(UNDO.bind());
    await tx.run(RELEASE.bind());
    if (entries.length === 1) return [{ entry: entries[0] as T, error }];
  }
  const half = Math.ceil(entries.length / 2);
  const first = await writeOrRefuse(tx, entries.slice(0, half), write);
  return [...first, ...(await writeOrRefuse(tx, entries.slice(half), write))];
}

/** The same for what was published. */
export class SettleOrRefuse {
  /** A deletion failed for a reason of its row's: a trigger of theirs, say. */ private deletionsFail = false;

  /** So seldom that deletions pay for savepoints only once one failed, and undid its transaction. */
  async write(
    tx: SqlExecutor,
    messages: readonly SettledMessage[],
    onPublished: 'delete' | 'archive',
    write: (messages: readonly SettledMessage[]) => Promise<unknown>,
  ): Promise<Refused<SettledMessage>[]> {
    if (onPublished === 'archive' || this.deletionsFail) return writeOrRefuse(tx, messages, write);
    if (messages.length === 0) return [];
    try {
      await write(messages);
      return [];
    } catch (error) {
      this.deletionsFail ||= isOfTheRow(error);
      throw error;
    }
  }
}
