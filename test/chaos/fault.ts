import type { Fleet } from './fleet.js';

/** One fault, made up and not yet done. */
export interface Fault {
  readonly kind: string;
  /** What no two faults may have at the same time. */
  readonly locks: readonly string[];
  /** Lives of relays that it touches; `all` when it is at a server. */
  readonly runs: readonly number[] | 'all';
  inject(): Promise<void> | void;
  /** Milliseconds between the two. */
  readonly lasts: number;
  heal(): Promise<void> | void;
  /** What must come to its end, with the locks held, before the next fault of this kind: nobody else waits for it. */
  settled?(): Promise<void>;
}
export type Random = () => number;
export type Maker = (fleet: Fleet, random: Random) => Omit<Fault, 'kind'>;

export const nothing = (): void => undefined;
export const between = (random: Random, from: number, to: number): number => Math.floor(from + random() * (to - from));
export function pick<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)] as T;
}
