import type { FaultLog } from './faults.js';

interface Change {
  readonly at: number;
  readonly owner: string | null;
}
/** Microseconds by which the database's clock and ours may differ. */
const TOLERANCE = 10_000;

/** Who owned which bucket, as the database logged it. */
export class LeaseLog {
  private readonly changes = new Map<string, Change[]>();
  private readonly owners = new Map<number, string>();

  change(at: number, transport: number, bucket: number, owner: string | null): void {
    const place = `${transport}/${bucket}`;
    let list = this.changes.get(place);
    if (list === undefined) this.changes.set(place, (list = []));
    list.push({ at, owner });
  }

  name(run: number, owner: string): void {
    this.owners.set(run, owner);
  }

  knows(run: number): boolean {
    return this.owners.has(run);
  }

  /** Whether the bucket was the relay's at that time. */
  owns(run: number, transport: number, bucket: number, time: number): boolean {
    const owner = this.owners.get(run);
    const list = this.changes.get(`${transport}/${bucket}`) ?? [];
    const first = indexAfter(list, time - TOLERANCE);
    // It may have been ours a moment ago, or be ours a moment later: the clocks are not that exact.
    return list.slice(Math.max(0, first - 1), indexAfter(list, time + TOLERANCE)).some((each) => each.owner === owner);
  }

  /** For each bucket of a relay that died: how long until another one had it. */
  takeovers(run: number, died: number): number[] {
    const owner = this.owners.get(run);
    if (owner === undefined) return [];
    const times: number[] = [];
    for (const list of this.changes.values()) {
      const after = indexAfter(list, died);
      if (list[after - 1]?.owner !== owner) continue;
      const next = list.slice(after).find((change) => change.owner !== null && change.owner !== owner);
      if (next !== undefined) times.push(next.at - died);
    }
    return times;
  }
}

function indexAfter(list: readonly Change[], time: number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle] as Change).at <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

export interface TakeoverReport {
  /** Milliseconds, while the database was well. */
  readonly p50: number;
  readonly p99: number;
  readonly count: number;
  /** With nothing else wrong, and later than promised. */
  readonly slow: string[];
}

/** @param promised microseconds */
export function judgeTakeovers(leases: LeaseLog, faults: FaultLog, promised: number): TakeoverReport {
  const times: number[] = [];
  const slow: string[] = [];
  for (const { id, kind, runs, from } of faults.spans) {
    if (kind !== 'relay-kill' || runs === 'all') continue;
    const [run] = [...runs] as [number];
    const took = leases.takeovers(run, from);
    if (took.length === 0) continue;
    const last = from + Math.max(...took);
    const other = (sort: (name: string) => boolean): boolean =>
      faults.between(from - promised, last, (span) => span.id !== id && sort(span.kind)) !== undefined;
    if (other((name) => name.startsWith('database'))) continue;
    times.push(...took);
    if (last - from > promised && !other(() => true))
      slow.push(`relay ${run}: ${Math.round((last - from) / 1_000)} ms`);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => Math.round((times[Math.floor(share * (times.length - 1))] ?? 0) / 1_000);
  return { p50: at(0.5), p99: at(0.99), count: times.length, slow };
}
