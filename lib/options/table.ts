import {
  aFunction,
  aPooler,
  duration,
  encryption,
  having,
  integer,
  oneOf,
  orCron,
  orFunction,
  orNull,
  someSerializers,
  text,
  type Rule,
} from './rules.js';
import { RETRY_RULES } from './retry-rules.js';
import { MAX_PREFIX } from '../store/names.js';

export interface OptionRow {
  /** `retry.initial`. */
  readonly name: string;
  /** As one would write it; `undefined`: none. */
  readonly default: unknown;
  /** What the page of options has instead of `default` where that is computed. */
  readonly defaultText?: string;
  readonly rule: Rule;
}

/** Every option but `transports`: the one place with names, defaults and bounds. docs/options.md is checked against it. */
export const OPTIONS_TABLE: readonly OptionRow[] = [
  row('defaultTransport', undefined, text(/^.+$/, 'the name of a transport'), "'default', or the only one"),
  row('relay', true, oneOf(true, false, 'manual')),
  row('wakeUp', undefined, oneOf('notify', 'poll'), 'notify on PostgreSQL, poll elsewhere and behind a pooler'),
  row('database.setup', 'check', oneOf('check', 'create', 'none')),
  row('database.schema', undefined, identifier(63), "the connection's"),
  row('database.prefix', 'outbox_', identifier(MAX_PREFIX)),
  row('database.pooler', undefined, aPooler, 'found out'),
  row('store', undefined, aFunction, 'none'),
  row('currentTransaction', undefined, aFunction, 'none'),
  row('ordering', 'key', oneOf('key', 'strict', 'none', 'global')),
  row('coordination', 'buckets', oneOf('buckets', 'rowLock', 'leader')),
  row('buckets', 32, integer(1, 1024)),
  row('retry.initial', '1s', RETRY_RULES.initial),
  row('retry.max', '5m', RETRY_RULES.max),
  row('retry.backoff', 'exponential', orFunction(RETRY_RULES.backoff)),
  row('retry.jitter', 'full', RETRY_RULES.jitter),
  row('retry.maxAttempts', 20, RETRY_RULES.maxAttempts),
  row('retry.maxAge', undefined, RETRY_RULES.maxAge, 'none'),
  row('retry.errorHistory', 0, integer(0, 100)),
  row('retry.classify', undefined, aFunction, 'none'),
  row('onDead', 'block', RETRY_RULES.onDead),
  row('deadLetter', undefined, aFunction, 'none'),
  row('onPublished', 'delete', oneOf('delete', 'archive')),
  row('retention.published', '7d', duration('1s', '3650d')),
  row('retention.dead', null, orNull(duration('1s', '3650d'))),
  row('retention.dedup', '7d', duration('1m', '3650d')),
  row('retention.audit', '90d', duration('1h', '3650d')),
  row('retention.every', '1h', orCron(duration('1s', '24d'))),
  row('partitions.period', undefined, oneOf('hour', 'day', 'month'), 'none'),
  row('lease', '30s', duration('10s', '1h')),
  row('batchSize', 500, integer(1, 10_000)),
  row('batchBytes', 4 * 2 ** 20, integer(1024, 2 ** 30)),
  row('batchesInFlight', 4, integer(1, 64)),
  row('pollInterval', '1s', duration('10ms', '1m')),
  row('publishTimeout', '10s', duration('100ms', '30m')),
  row('shutdownTimeout', '10s', duration('100ms', '10m')),
  row('maxPayloadBytes', 2 ** 20, integer(1, 2 ** 27)),
  row('serializer', undefined, someSerializers, 'JSON'),
  row('encryption', undefined, encryption, 'none'),
  row('idGenerator', undefined, aFunction, 'UUIDv7'),
  row('logger', undefined, having('log', 'warn', 'error'), 'Nest Logger'),
  row('logLevel', 'log', oneOf('debug', 'log', 'warn', 'error', 'silent')),
];

function row(name: string, value: unknown, rule: Rule, defaultText?: string): OptionRow {
  return { name, default: value, rule, ...(defaultText === undefined ? {} : { defaultText }) };
}

/** What both databases take without quotes in anybody's tools; the store refuses the same. */
function identifier(length: number): Rule {
  return text(
    new RegExp(`^[a-z_][a-z0-9_]{0,${length - 1}}$`),
    `lower-case letters, digits and _, not starting with a digit, at most ${length} characters`,
  );
}
