import type { Duration } from '../outbox-message.js';
import { resolveFactory, row, type FactoryTable } from '../options/factory-options.js';
import { duration, having, INVALID, needed, orNull, text } from '../options/rules.js';
import type { MetricsRegistry } from './registered.js';
import { LATENCY_BOUNDS } from './event-metrics.js';

/** Options of {@link OutboxPrometheus}. */
export interface OutboxPrometheusOptions {
  /** Is the `Registry` of prom-client: the application's own, or the global `register`. */
  readonly registry: MetricsRegistry;
  /** Names the outbox in the label `outbox`. Default: `default`. */
  readonly name?: string;
  /**
   * Sets the shortest time between two calls of `stats()`, however many scrapes there are, 1s–1h. With `null` there are no calls,
   * and this process shows no counts of the tables. Default: 15s.
   */
  readonly countEvery?: Duration | null;
  /** Limits how long a scrape waits for new counts before it shows the last ones, 10ms–60s. Default: 5s. */
  readonly countTimeout?: Duration;
  /** Sets the upper bounds of `outbox_commit_to_publish_seconds`, ascending. Default: 5 ms to 30 min. */
  readonly buckets?: readonly number[];
}
export interface ResolvedPrometheusOptions extends Required<OutboxPrometheusOptions> {
  readonly countEvery: number | null;
  readonly countTimeout: number;
}

const OPTIONS: FactoryTable<OutboxPrometheusOptions> = {
  factory: 'OutboxPrometheus',
  rows: {
    registry: row(needed({ ...having('registerMetric'), allowed: 'a Registry of prom-client' })),
    name: row(text(/./, 'the name of an outbox'), 'default'),
    countEvery: row(orNull(duration('1s', '1h')), 15_000),
    countTimeout: row(duration('10ms', '60s'), 5_000),
    buckets: row(
      { allowed: 'numbers above 0 that ascend', parse: (all) => (ascends(all) ? all : INVALID) },
      LATENCY_BOUNDS,
    ),
  },
};

export const resolvePrometheusOptions = (options: OutboxPrometheusOptions): ResolvedPrometheusOptions =>
  resolveFactory(OPTIONS, options) as ResolvedPrometheusOptions;

function ascends(bounds: unknown): boolean {
  if (!Array.isArray(bounds) || bounds.length === 0) return false;
  return bounds.every((bound, at) => bound > (at === 0 ? 0 : Number(bounds[at - 1])));
}
