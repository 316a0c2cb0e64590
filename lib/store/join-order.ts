import type { DueRow, KeyInBucket } from './parked-store.js';

interface DueInOrder {
  readonly bucket: number;
  readonly key: string | null;
}

/**
 * Scheduled messages join the order of their keys when they fall due, each behind what is there: the first of a key that
 * nothing blocks keeps its number, the others get new ones.
 * @param rows in the order in which they fell due
 * @param blocked keys that have a blocking row
 * @returns for each row whether it goes behind others
 */
export function goBehind(rows: readonly DueInOrder[], blocked: readonly KeyInBucket[]): boolean[] {
  const taken = new Set(blocked.map(nameOf));
  return rows.map((row) => {
    const name = nameOf(row);
    const behind = taken.has(name);
    taken.add(name);
    return behind;
  });
}

/**
 * Due rows that nobody else has locked. Of the scheduled ones of a key none joins its order before one that fell due earlier.
 * @param due in the order in which they fell due
 * @param locked by us
 */
export function withinReach(due: readonly DueRow[], locked: { has(parkedId: string): boolean }): DueRow[] {
  const closed = new Set<string>();
  return due.filter((row) => {
    const name = row.state === 'scheduled' && row.key !== null ? nameOf(row) : undefined;
    if (name !== undefined && !locked.has(row.parkedId)) closed.add(name);
    return locked.has(row.parkedId) && (name === undefined || !closed.has(name));
  });
}

const nameOf = ({ bucket, key }: DueInOrder): string => `${bucket} ${key}`;
