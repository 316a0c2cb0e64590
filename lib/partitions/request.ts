import { OPTIONS_TABLE } from '../options/table.js';
import { problemsOf, type Rule } from '../options/rules.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { Duration } from '../outbox-message.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { PartitionPeriod } from '../store/partitions/period.js';
import type { PartitionRules } from './plan.js';

/** Rules of one pass, each in place of the option of the same name. */
export interface PartitionRequest {
  period?: PartitionPeriod;
  lookahead?: Duration;
  /** `null`: nothing is dropped. */
  retention?: Duration | null;
  lockTimeout?: Duration;
}
export interface ResolvedRequest extends PartitionRules {
  /** Milliseconds. */
  readonly lockTimeout: number;
}

/** Milliseconds. */
const DAY = 86_400_000;
const LOOKAHEAD: Readonly<Record<PartitionPeriod, number>> = { hour: 2 * DAY, day: 30 * DAY, month: 90 * DAY };
const NAMES = ['period', 'lookahead', 'retention', 'lockTimeout'] as const;
const RULES = Object.fromEntries(
  NAMES.map((name) => [name, OPTIONS_TABLE.find((row) => row.name === `partitions.${name}`)?.rule as Rule]),
) as Record<(typeof NAMES)[number], Rule>;

/** @throws OutboxConfigurationError `INVALID_OPTIONS`: a value is not allowed, or there is no period */
export function resolveRequest(request: PartitionRequest, options: ResolvedOptions['partitions']): ResolvedRequest {
  const given = NAMES.filter((name) => request[name] !== undefined);
  const problems = given.flatMap((name) => problemsOf(RULES[name], request[name], name));
  if (problems.length > 0) throw invalid(`OutboxPartitionMaintainer: ${problems.join('; ')}.`);
  const parsed = Object.fromEntries(given.map((name) => [name, RULES[name].parse(request[name])]));
  const { period, lookahead, retention, lockTimeout } = { ...options, ...parsed } as ResolvedOptions['partitions'];
  if (period === undefined) throw invalid('partitions.period is not set.', "Say 'hour', 'day' or 'month'.");
  return { period, lookahead: lookahead ?? LOOKAHEAD[period], retention, lockTimeout };
}

const invalid = (text: string, hint?: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', text, hint === undefined ? {} : { hint });
