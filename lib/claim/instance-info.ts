import { hostname } from 'node:os';

/** What stands in the row of an instance: host and pid for people, then what the others go by. */
export const instanceInfo = (lease: number): string => `${hostname()} pid ${process.pid} lease ${lease}ms`;

/** Milliseconds; `undefined`: an instance of a version that did not tell. */
export function toldLease(info: string): number | undefined {
  const told = / lease (\d{1,12})ms(?= |$)/.exec(people(info))?.[1];
  return told === undefined ? undefined : Number(told);
}

/** Without what the instance can handle. */
const people = (info: string): string => {
  const end = info.indexOf(' {');
  return end < 0 ? info : info.slice(0, end);
};
