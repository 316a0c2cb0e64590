/** One fault as it was injected; times in microseconds. */
export interface FaultSpan {
  readonly id: number;
  readonly kind: string;
  readonly runs: ReadonlySet<number> | 'all';
  readonly from: number;
  to: number;
}

/** What was done to the system, and when. */
export class FaultLog {
  readonly spans: FaultSpan[] = [];
  readonly calms: { from: number; to: number }[] = [];
  private readonly byId = new Map<number, FaultSpan>();
  private longest = 0;

  begin(id: number, kind: string, runs: readonly number[] | 'all', from: number): void {
    const span = { id, kind, runs: runs === 'all' ? runs : new Set(runs), from, to: Infinity };
    this.spans.push(span);
    this.byId.set(id, span);
  }

  end(id: number, to: number): void {
    const span = this.byId.get(id);
    if (span === undefined) return;
    span.to = to;
    this.longest = Math.max(this.longest, to - span.from);
  }

  /** The latest fault that touches this relay and was on between the two times. */
  touching(run: number, from: number, to: number): FaultSpan | undefined {
    return this.between(from, to, ({ runs }) => runs === 'all' || runs.has(run));
  }

  /** The latest fault of that sort which overlaps with this time. */
  between(from: number, to: number, sort: (span: FaultSpan) => boolean = () => true): FaultSpan | undefined {
    for (let i = this.firstAfter(to) - 1; i >= 0; i -= 1) {
      const span = this.spans[i] as FaultSpan;
      if (span.to >= from && sort(span)) return span;
      if (span.from + this.longest < from && span.to !== Infinity) return undefined;
    }
    return undefined;
  }

  /** Since when nothing is wrong at that time; Infinity when something is. `aftermath`: what a fault leaves behind. */
  quietSince(time: number, aftermath: (span: FaultSpan) => number): number {
    let since = 0;
    for (const span of this.spans) {
      if (span.from <= time && touchesRelays(span)) since = Math.max(since, span.to + aftermath(span));
    }
    return since <= time ? since : Infinity;
  }

  isCalm(time: number): boolean {
    return this.calms.some(({ from, to }) => from <= time && time <= to);
  }

  counts(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { kind } of this.spans) counts[kind] = (counts[kind] ?? 0) + 1;
    return counts;
  }

  /** Spans are in the order of their beginnings. */
  private firstAfter(time: number): number {
    let [low, high] = [0, this.spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.spans[middle] as FaultSpan).from <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Nothing that is done to a writer hinders a relay. */
export function touchesRelays({ runs }: FaultSpan): boolean {
  return runs === 'all' || runs.size > 0;
}
