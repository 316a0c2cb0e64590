import { circuitWithin, takeoverWithin, type Timing } from './bounds.js';
import { Column } from './columns.js';
import { touchesRelays, type FaultLog, type FaultSpan } from './faults.js';
import type { LeaseLog } from './leases.js';
import type { Lives } from './lives.js';

export interface RecoveryReport {
  /** Milliseconds from the end of a fault of all relays to the first publish of a transport after it. */
  readonly p50: number;
  readonly max: number;
  readonly count: number;
  readonly slow: string[];
}

/** For how long the circuit that a fault left open can matter to what comes later; microseconds. */
const REMEMBERED = 60_000_000;

/** What the consumer saw first after everybody had been cut off from the broker or the database. */
export class Recoveries {
  private readonly seen = [new Column(Float64Array), new Column(Float64Array)] as const;

  constructor(
    private readonly faults: FaultLog,
    private readonly lives: Lives,
    private readonly leases: LeaseLog,
  ) {}

  /** Not of what the broker repeats: that was published before. */
  sighting(transport: number, time: number): void {
    this.seen[transport]?.push(time);
  }

  /** Times of each transport, sorted. */
  get sightings(): Float64Array[] {
    return this.seen.map(sorted);
  }

  /** @param end when nothing was written any more: from then on silence is no sign */
  judge(timing: Timing & { readonly relays?: number }, end: number): RecoveryReport {
    const times: number[] = [];
    const slow: string[] = [];
    const faults = this.faults.spans.filter((span) => hitsAll(span, timing.relays) && span.to < end);
    this.seen.forEach((column, transport) => {
      const list = sorted(column);
      for (const span of list.length === 0 ? [] : faults) {
        const next = firstAfter(list, span.to);
        const first = list[next] ?? Infinity;
        const silent = span.to - Math.min(span.from, list[next - 1] ?? span.from);
        const due = this.due(span, transport, silent, first, timing);
        if (due === undefined) continue;
        const took = Math.round((first - span.to) / 1_000);
        if (first !== Infinity) times.push(took);
        if (Math.min(first, end) > due)
          slow.push(`${span.kind} ${span.id}: ${took} ms; promised ${Math.round((due - span.to) / 1_000)}`);
      }
    });
    times.sort((a, b) => a - b);
    const at = (share: number): number => times[Math.floor(share * (times.length - 1))] ?? 0;
    return { p50: at(0.5), max: at(1), count: times.length, slow };
  }

  /**
   * When the first publish must have been; `undefined` when too much else was wrong to tell. A relay that has a lease all the time, and
   * that nothing else is done to until then, owes it; when nothing else is wrong at all, those that are there owe it, whoever has leases.
   */
  private due(span: FaultSpan, transport: number, silent: number, first: number, timing: Timing): number | undefined {
    const { faults, lives, leases } = this;
    const relays = lives.upAt(span.to);
    const within = takeoverWithin(timing);
    const alone = span.to + Math.max(within, circuitWithin(span, silent));
    const hindered = (from: number, until: number, sort: (other: FaultSpan) => boolean): boolean =>
      faults.between(from, until, (other) => other !== span && sort(other)) !== undefined;
    if (relays.length > 0 && !hindered(span.to - within, Math.min(first, alone), touchesRelays)) return alone;
    const dues = relays.flatMap((run) => {
      const due = Math.max(
        alone,
        ...this.earlier(run, span).map((one) => one.to + circuitWithin(one, one.to - one.from)),
      );
      const until = Math.min(first, due);
      const owes =
        leases.holds(run, transport, span.to, until) && !hindered(span.to, until, (other) => hits(other, run));
      return owes ? [due] : [];
    });
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  /** What had been done to the relay a while before. */
  private earlier(run: number, { to }: FaultSpan): FaultSpan[] {
    return this.faults.spans.filter((span) => span.to <= to && span.to > to - REMEMBERED && hits(span, run));
  }
}

function hits({ runs }: FaultSpan, run: number): boolean {
  return runs === 'all' || runs.has(run);
}

function hitsAll({ kind, runs }: FaultSpan, relays = Infinity): boolean {
  return /^(database|broker)/.test(kind) && (runs === 'all' || runs.size >= relays);
}

function sorted(column: Column): Float64Array {
  return Float64Array.from({ length: column.length }, (_, index) => column.get(index)).sort();
}

export function firstAfter(times: Float64Array, time: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
