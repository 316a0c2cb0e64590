import { Judge } from './check/judge.js';

/** Small histories for the tests of the checker; the relays' lease is 10 s, a look at the others comes every second. */
const RELAY = {
  lease: 10_000,
  pollInterval: 500,
  relays: 2,
  maxConnections: 7,
  maxBrokerConnections: 2,
  batchSize: 2,
  batchesInFlight: 1,
};
/** On PostgreSQL, unless `store` says otherwise. */
export const metaOf = (store = 'postgres'): unknown[] => [
  'meta',
  { seed: 1, store, transports: ['alpha', 'beta'], relay: RELAY },
];
export const META = metaOf();
export const SECOND = 1_000_000;

export const uid = (writer: number, n: number, index = 0): number => (writer * 2 ** 20 + n) * 16 + index;

/** A transaction of one writer with messages of key 7 for the first transport, committed in the tenth after its begin. */
export function commit(n: number, began: number, messages: number[][] = [[7, 1, 0]]): unknown[][] {
  return [
    ['c', 1, n, began, messages],
    ['e', 1, [n, began + SECOND / 10]],
  ];
}
export const sight = (time: number, run: number, ...uids: number[]): unknown[] => ['s', 0, time, run, 0, uids];

/** One fault, on between the two. */
export function fault(kind: string, runs: number[] | 'all', from: number, to: number, id = 1): unknown[][] {
  return [
    ['fault', id, kind, runs, from],
    ['heal', id, to],
  ];
}

/** A relay that was up a second after its start. */
export function life(run: number, slot: number, from: number): unknown[][] {
  return [
    ['run', run, slot, from],
    ['ready', run, from + SECOND, 500],
    ['o', run, `owner ${run}`],
  ];
}

export function judge(...lines: readonly unknown[][]): Record<string, unknown> {
  const checker = new Judge();
  for (const line of [META, ...lines]) checker.take(line);
  return checker.verdict();
}

/** Two transactions one after the other, seen in order. */
export const CLEAN = [...commit(1, 0), ...commit(2, SECOND), sight(2 * SECOND, 1, uid(1, 1), uid(1, 2))];
