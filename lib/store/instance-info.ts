import { hostname } from 'node:os';

/** What stands in the row of an instance: host and pid for people, then what the others go by. */
export const instanceInfo = (lease: number, life: string | undefined): string =>
  `${hostname()} pid ${process.pid} lease ${lease}ms${life === undefined ? '' : ` life ${life}`}`;

/** Milliseconds; `undefined`: an instance of a version that did not tell. */
export function toldLease(info: string): number | undefined {
  const told = / lease (\d{1,12})ms(?= |$)/.exec(withoutHandled(info))?.[1];
  return told === undefined ? undefined : Number(told);
}

/** Which process it is, for others on its machine; `undefined`: it does not tell. */
export const toldLife = (info: string): string | undefined =>
  / life ([0-9a-f.]{1,60})(?= |$)/.exec(withoutHandled(info))?.[1];

/** For people. */
export const toldPlace = (info: string): string => withoutHandled(info).replace(/ lease \d.*$/, '');

/** Without what the instance can handle. */
const withoutHandled = (info: string): string => {
  const end = info.indexOf(' {');
  return end < 0 ? info : info.slice(0, end);
};
