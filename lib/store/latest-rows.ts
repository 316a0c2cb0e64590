import type { StoredRow } from './inspect-store.js';

/** Of rows that were found in the order in which messages move, each once, where it was seen last. */
export function latestOf(rows: readonly StoredRow[]): StoredRow[] {
  const latest = new Map(rows.map((row) => [`${row.transport}/${row.seq}/${row.id}`, row]));
  return [...latest.values()].sort((a, b) => a.transport - b.transport);
}
