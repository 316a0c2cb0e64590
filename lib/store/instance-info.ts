import { hostname } from 'node:os';

/** What stands in the row of an instance: host and pid for people, then what the others go by. */
export const instanceInfo = (lease: number): string => `${hostname()} pid ${process.pid} lease ${lease}ms`;

/** @param troubles why it does not publish all that it should: as many as fit into its row */
export function withTroubles(info: string, troubles: readonly unknown[]): string {
  let left = MOST_BYTES;
  const some = troubles.filter((each) => (left -= Buffer.byteLength(JSON.stringify(each)) + 1) >= 0);
  return some.length === 0 ? info : `${info} ${JSON.stringify({ troubles: some })}`;
}

/** Of an instance of another version, or a row that somebody wrote: anything. */
export function toldTroubles(info: string): readonly unknown[] {
  try {
    const { troubles } = Object(JSON.parse(info.slice(headOf(info).length))) as { troubles?: unknown };
    return Array.isArray(troubles) ? troubles : [];
  } catch {
    return [];
  }
}

/** Milliseconds; `undefined`: an instance of a version that did not tell. */
export function toldLease(info: string): number | undefined {
  const told = / lease (\d{1,12})ms(?= |$)/.exec(headOf(info))?.[1];
  return told === undefined ? undefined : Number(told);
}

/** For people. */
export const toldPlace = (info: string): string => headOf(info).replace(/ lease \d.*$/, '');

/** A third of what the column of MySQL holds: a heartbeat that fails would cost all leases. */
const MOST_BYTES = 20_000;

const headOf = (info: string): string => {
  const end = info.indexOf(' {');
  return end < 0 ? info : info.slice(0, end);
};
