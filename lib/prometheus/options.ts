import type { Duration } from '../outbox-message.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { refuseUnknown } from '../options/refuse.js';
import { duration, INVALID } from '../options/rules.js';
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
export interface ResolvedPrometheusOptions {
  readonly registry: MetricsRegistry;
  readonly name: string;
  /** Milliseconds. */
  readonly countEvery: number | null;
  readonly countTimeout: number;
  readonly buckets: readonly number[];
}

const SUBJECT = 'OutboxPrometheus';
const OPTIONS = ['registry', 'name', 'countEvery', 'countTimeout', 'buckets'] as const;

export function resolvePrometheusOptions(options: OutboxPrometheusOptions): ResolvedPrometheusOptions {
  const given = Object(options) as OutboxPrometheusOptions;
  refuseUnknown(given, OPTIONS, SUBJECT);
  const { registry, name = 'default', countEvery = '15s', countTimeout = '5s', buckets = LATENCY_BOUNDS } = given;
  const isRegistry = typeof (registry as Partial<MetricsRegistry> | undefined)?.registerMetric === 'function';
  if (!isRegistry) throw refusal('registry must be a Registry of prom-client');
  if (typeof name !== 'string' || name === '') throw refusal('name must be the name of an outbox');
  const ascends =
    Array.isArray(buckets) && buckets.every((bound, at) => bound > (at === 0 ? 0 : Number(buckets[at - 1])));
  if (!ascends || buckets.length === 0) throw refusal('buckets must be numbers above 0 that ascend');
  return {
    registry,
    name,
    countEvery: countEvery === null ? null : checked('countEvery', countEvery, '1s', '1h'),
    countTimeout: checked('countTimeout', countTimeout, '10ms', '60s'),
    buckets,
  };
}

function checked(option: string, value: unknown, min: string, max: string): number {
  const { parse, allowed } = duration(min, max);
  const ms = parse(value);
  if (ms === INVALID) throw refusal(`${option} must be ${allowed}`);
  return ms as number;
}

const refusal = (problem: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', `${SUBJECT}: ${problem}.`);
