import { drawPlan } from './plan.js';
import { play, type Outcome } from './scenario.js';

export interface Broken {
  readonly seed: number;
  readonly violations: readonly string[];
}
/** What many histories came to; plain data, so that processes can send it. */
export interface Totals {
  histories: number;
  committed: number;
  duplicates: number;
  steps: number;
  /** Milliseconds of virtual time from the last disturbance until everything was through, at most. */
  slowest: number;
  readonly faults: Record<string, number>;
  readonly broken: Broken[];
}

export const nothing = (): Totals => ({
  histories: 0,
  committed: 0,
  duplicates: 0,
  steps: 0,
  slowest: 0,
  faults: {},
  broken: [],
});

export async function playRange(first: number, count: number, noScan = false): Promise<Totals> {
  const totals = nothing();
  for (let seed = first; seed < first + count; seed += 1) add(totals, await play(drawPlan(seed, noScan)));
  return totals;
}

function add(totals: Totals, { plan, committed, duplicates, steps, faults, violations, settledAfter }: Outcome): void {
  merge(totals, {
    histories: 1,
    committed,
    duplicates,
    steps,
    slowest: Math.round(settledAfter),
    faults: Object.fromEntries(faults),
    broken: violations.length > 0 ? [{ seed: plan.seed, violations }] : [],
  });
}

export function merge(into: Totals, more: Totals): void {
  into.histories += more.histories;
  into.committed += more.committed;
  into.duplicates += more.duplicates;
  into.steps += more.steps;
  into.slowest = Math.max(into.slowest, more.slowest);
  for (const [kind, count] of Object.entries(more.faults)) into.faults[kind] = (into.faults[kind] ?? 0) + count;
  into.broken.push(...more.broken);
}

/** How many histories broke each invariant. */
export function byInvariant(broken: readonly Broken[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { violations } of broken) {
    for (const number of new Set(violations.map((text) => text.split(':')[0] as string)))
      counts[number] = (counts[number] ?? 0) + 1;
  }
  return counts;
}
