import { circuitWithin, takeoverWithin, type Timing } from './bounds.js';
import { touchesRelays, type FaultLog } from './faults.js';
import type { LeaseLog } from './leases.js';
import type { Lives } from './lives.js';

export interface TakeoverReport {
  /** Milliseconds, while the database was well; null when there was none. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly max: number | null;
  readonly count: number;
  /** With nothing else wrong, and later than promised, or never. */
  readonly slow: string[];
}

/** Of what is done to one relay that has buckets then: looks at the leases, beyond those of a take-over. */
const LOOKS: Readonly<Record<string, number>> = {
  'relay-kill': 0,
  // Shortened by the first look that sees it, and taken a lease later.
  'lease-ahead': 1,
};

/** @param end when the relays were told to stop: what nobody took by then, nobody took */
export function judgeTakeovers(leases: LeaseLog, faults: FaultLog, timing: Timing, end: number): TakeoverReport {
  const times: number[] = [];
  const slow: string[] = [];
  for (const { id, kind, runs, from } of faults.spans) {
    const looks = LOOKS[kind];
    if (looks === undefined || runs === 'all') continue;
    const promised = takeoverWithin(timing) + looks * 2 * timing.pollInterval * 1_000;
    const [run] = [...runs] as [number];
    const all = leases.takeovers(run, from);
    const took = all.filter((time) => time !== Infinity);
    const longest = Math.max(0, ...took);
    const other = (until: number, sort: (name: string) => boolean): boolean =>
      faults.between(from - promised, until, (span) => span.id !== id && touchesRelays(span) && sort(span.kind)) !==
      undefined;
    if (kind === 'relay-kill' && !other(from + longest, (name) => name.startsWith('database'))) times.push(...took);
    if (other(from + promised, () => true)) continue;
    if (longest > promised) slow.push(`relay ${run}: ${Math.round(longest / 1_000)} ms`);
    if (all.length > took.length && end - from > promised)
      slow.push(`relay ${run}: nobody took ${all.length - took.length} of its buckets`);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number | null => {
    const time = times[Math.floor(share * (times.length - 1))];
    return time === undefined ? null : Math.round(time / 1_000);
  };
  return { p50: at(0.5), p99: at(0.99), max: at(1), count: times.length, slow };
}

/**
 * Buckets without an owner that lives, whatever it was that they lost theirs by: nothing was wrong for longer than a takeover
 * takes, and relays were there.
 * @param quiet times at which nothing was wrong
 */
export function unownedBuckets(
  leases: LeaseLog,
  lives: Lives,
  faults: FaultLog,
  timing: Timing,
  quiet: readonly number[],
): string[] {
  const found = new Set<string>();
  for (const time of quiet) {
    const healed = faults.quietSince(time, (span) => circuitWithin(span, span.to - span.from));
    const since = Math.max(healed, lives.lastReadyBefore(time));
    const relays = lives.upAt(time);
    if (relays.length === 0 || time - since <= takeoverWithin(timing)) continue;
    for (const place of leases.unowned(relays, since, time)) found.add(`bucket ${place} from ${since} to ${time}`);
  }
  return [...found];
}
