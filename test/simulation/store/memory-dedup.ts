import type { MemoryDatabase } from './memory-database.js';
import { isVisible, type DedupRow } from './memory-rows.js';

/** Whether a transport still has the message, ready or parked. */
export function unsettled(database: MemoryDatabase): (row: DedupRow) => boolean {
  const parked = new Set(database.parkedRows().map(({ id }) => id));
  return ({ id, places }) =>
    parked.has(id) || places.some(({ transport, bucket, seq }) => database.readyRow(transport, bucket, seq));
}

/** Of messages of which an operator deleted rows: the keys of those that no transport has any more. */
export function freeDedup(database: MemoryDatabase, ids: readonly string[]): void {
  if (ids.length === 0) return;
  const isUnsettled = unsettled(database);
  for (const [key, row] of database.dedup)
    if (ids.includes(row.id) && isVisible(row) && !isUnsettled(row)) database.dedup.delete(key);
}
