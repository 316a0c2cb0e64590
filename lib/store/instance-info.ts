import { hostname } from 'node:os';

/** What stands in the row of an instance: host and pid for people, then what the others go by. */
export const instanceInfo = (lease: number, life: string | undefined): string =>
  `${hostname()} pid ${process.pid} lease ${lease}ms${life === undefined ? '' : ` life ${life}`}`;

/** What it tells beside that: by the number of a transport what it can handle there, and `troubles`. */
export function withTold(info: string, told: Readonly<Record<string, unknown>>): string {
  return Object.keys(told).length === 0 ? info : `${info} ${JSON.stringify(told)}`;
}

/** Of an instance of another version, or a row that somebody wrote: anything. */
export function toldOf(info: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(info.slice(headOf(info).length))) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Why it does not publish all that it should. */
export function toldTroubles(info: string): readonly unknown[] {
  const { troubles } = toldOf(info);
  return Array.isArray(troubles) ? troubles : [];
}

/** Milliseconds; `undefined`: an instance of a version that did not tell. */
export function toldLease(info: string): number | undefined {
  const told = / lease (\d{1,12})ms(?= |$)/.exec(headOf(info))?.[1];
  return told === undefined ? undefined : Number(told);
}

/** Which process it is, for others on its machine; `undefined`: it does not tell. */
export const toldLife = (info: string): string | undefined => / life ([0-9a-f.]{1,60})(?= |$)/.exec(headOf(info))?.[1];

/** For people. */
export const toldPlace = (info: string): string => headOf(info).replace(/ lease \d.*$/, '');

const headOf = (info: string): string => {
  const end = info.indexOf(' {');
  return end < 0 ? info : info.slice(0, end);
};
