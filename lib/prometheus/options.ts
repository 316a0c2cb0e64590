import type { Duration } from '../outbox-message.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { refuseUnknown } from '../options/refuse.js';
import { duration, INVALID } from '../options/rules.js';
import type { MetricsRegistry } from './registered.js';
import { LATENCY_BOUNDS } from './event-metrics.js';

/** What is shown, where, and what it may cost. */
export interface OutboxPrometheusOptions {
  /** A `Registry` of prom-client: the application's own, or its global `register`. */
  readonly registry: MetricsRegistry;
  /** Of the outbox: the value of the label `outbox`. @default 'default' */
  readonly name?: string;
  /**
   * How often `stats()` is asked at most, whatever scrapes there are, 1s–1h; `null`: never, and this process shows no counts of the
   * tables. @default '15s'
   */
  readonly countEvery?: Duration | null;
  /** How long a scrape waits for new counts before it shows the last ones, 10ms–60s. @default '5s' */
  readonly countTimeout?: Duration;
  /** Upper bounds of `outbox_commit_to_publish_seconds`, ascending. @default 5 ms to 30 min */
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
