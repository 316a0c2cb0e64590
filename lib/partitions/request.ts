import { refuseOptions } from '../options/factory-options.js';
import { duration, oneOf, orNull, problemsOf } from '../options/rules.js';
import { misconfigured } from '../outbox.errors.js';
import type { Duration } from '../outbox-message.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { LOOKAHEAD, type PartitionPeriod } from '../store/partitions/period.js';
import type { PartitionRules } from './plan.js';

/** Rules of one pass. */
export interface PartitionRequest {
  /** Default: `partitions.period` of the options. */
  period?: PartitionPeriod;
  /** How far ahead partitions are made, and always the next one. Default: 2 d of hours, 30 d of days, 90 d of months (1 h–3650 d). */
  lookahead?: Duration;
  /** Partitions that ended longer ago are dropped; `null`: none is. Default: `retention.published` (1 h–36500 d). */
  retention?: Duration | null;
  /** How long a change waits for its table; MariaDB and MySQL round it up to whole seconds. Default: 1 s (50 ms–30 s). */
  lockTimeout?: Duration;
}
export interface ResolvedRequest extends PartitionRules {
  /** Milliseconds. */
  readonly lockTimeout: number;
}

/** Milliseconds. */
const LOCK_TIMEOUT = 1_000;
const RULES = {
  period: oneOf('hour', 'day', 'month'),
  lookahead: duration('1h', '3650d'),
  retention: orNull(duration('1h', '36500d')),
  lockTimeout: duration('50ms', '30s'),
} as const;
const NAMES = Object.keys(RULES) as readonly (keyof typeof RULES)[];

/** @throws OutboxConfigurationError `INVALID_OPTIONS`: a value is not allowed, or there is no period */
export function resolveRequest(request: PartitionRequest, options: ResolvedOptions['partitions']): ResolvedRequest {
  const given = NAMES.filter((name) => request[name] !== undefined);
  const problems = given.flatMap((name) => problemsOf(RULES[name], request[name], name));
  refuseOptions('OutboxPartitionMaintainer', problems);
  const parsed = Object.fromEntries(given.map((name) => [name, RULES[name].parse(request[name])]));
  const { period = options.period } = parsed as Partial<ResolvedRequest>;
  if (period === undefined) misconfigured('partitions.period is not set.', "Say 'hour', 'day' or 'month'.");
  return { lookahead: LOOKAHEAD[period], retention: options.retention, lockTimeout: LOCK_TIMEOUT, ...parsed, period };
}
