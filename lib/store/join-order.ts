import type { KeyInBucket } from './parked-store.js';

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

const nameOf = ({ bucket, key }: DueInOrder): string => `${bucket} ${key}`;
