import type { StoredRow } from '../store/inspect-store.js';
import { STATES, type CheckedQuery } from './message-query.js';

/** Of rows that were found by their ids those that the rest of a filter means. */
export function ofFilter(
  rows: readonly StoredRow[],
  { states, filter }: CheckedQuery,
  transport: number | undefined,
  now = Date.now(),
): StoredRow[] {
  const { key, topic, type, olderThan, youngerThan } = filter;
  const age = ({ createdAt }: StoredRow): number => now - (createdAt?.getTime() ?? NaN);
  return rows
    .filter(
      (row) =>
        states.includes(row.state) &&
        (transport ?? row.transport) === row.transport &&
        (key === undefined || row.key === key) &&
        (topic ?? row.topic) === row.topic &&
        (type ?? row.type) === row.type &&
        (olderThan === undefined || age(row) >= olderThan) &&
        (youngerThan === undefined || age(row) <= youngerThan),
    )
    .sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state));
}
