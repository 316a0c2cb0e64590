import type { Metric } from './catalogue.js';

/** A line of the scrape, as a registry of prom-client takes it. */
export interface Sample {
  /** Of a histogram: its name with `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

export const subjectOf = ({ name }: Metric): string => (name.startsWith('outbox_inbox_') ? 'inbox' : 'outbox');

/** @param of the name of the outbox or inbox @param values those of `metric.labels` */
export function labelsOf(metric: Metric, of: string, values: readonly string[]): Record<string, string> {
  return Object.fromEntries([[subjectOf(metric), of], ...metric.labels.map((label, n) => [label, values[n] ?? ''])]);
}

/** Numbers that only grow, one for each combination of label values. */
export class Tally {
  private readonly counts = new Map<string, { readonly values: readonly string[]; count: number }>();

  constructor(
    readonly metric: Metric,
    readonly outbox: string,
  ) {
    if (metric.labels.length === 0) this.add(0);
  }

  /** With 0: the line is there before the first one is counted, so that a rate sees it. */
  add(count: number, ...values: readonly string[]): void {
    const key = values.join('\n');
    const known = this.counts.get(key);
    if (known === undefined) this.counts.set(key, { values, count });
    else known.count += count;
  }

  samples(): Sample[] {
    return [...this.counts.values()].map(({ values, count }) => ({
      labels: labelsOf(this.metric, this.outbox, values),
      value: count,
    }));
  }
}

interface Observed {
  /** Of its labels. */
  readonly values: readonly string[];
  /** One more than there are bounds: the last has what is above them all. */
  readonly buckets: number[];
  sum: number;
}

/** How often which value was observed, for each combination of label values. */
export class Distribution {
  private readonly observed = new Map<string, Observed>();

  /** @param bounds ascending */
  constructor(
    readonly metric: Metric,
    readonly outbox: string,
    private readonly bounds: readonly number[],
  ) {}

  observe(value: number, ...values: readonly string[]): void {
    this.count(value, this.of(...values));
  }

  /** All with the same label values: each costs one look for its bucket. */
  observeEach(all: Iterable<number>, ...values: readonly string[]): void {
    const observed = this.of(...values);
    for (const value of all) this.count(value, observed);
  }

  private count(value: number, observed: Observed): void {
    let at = 0;
    while (at < this.bounds.length && value > (this.bounds[at] as number)) at++;
    (observed.buckets[at] as number)++;
    observed.sum += value;
  }

  /** The lines are there from now on. */
  of(...values: readonly string[]): Observed {
    const key = values.join('\n');
    let found = this.observed.get(key);
    if (found === undefined) {
      found = { values, buckets: Array.from({ length: this.bounds.length + 1 }, () => 0), sum: 0 };
      this.observed.set(key, found);
    }
    return found;
  }

  samples(): Sample[] {
    const { name } = this.metric;
    return [...this.observed.values()].flatMap(({ values, buckets, sum }) => {
      const labels = labelsOf(this.metric, this.outbox, values);
      let count = 0;
      const lines = buckets.map((one, index) => {
        count += one;
        return { metricName: `${name}_bucket`, labels: { le: this.bounds[index] ?? '+Inf', ...labels }, value: count };
      });
      return [
        ...lines,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
  }
}
