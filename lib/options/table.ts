import {
  aFunction,
  aSerializer,
  duration,
  encryption,
  having,
  integer,
  oneOf,
  orCron,
  orFunction,
  orNull,
  postgresUrl,
  someDeserializers,
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
  /** What stands in the README instead of `default` where that is computed. */
  readonly defaultText?: string;
  readonly rule: Rule;
  readonly reason: string;
}

/** Every option but `transports`: the one place with names, defaults, bounds and reasons. The README's table is checked against it. */
export const OPTIONS_TABLE: readonly OptionRow[] = [
  row(
    'defaultTransport',
    undefined,
    text(/^.+$/, 'the name of a transport'),
    'events that name none go here',
    "'default', or the only one",
  ),
  row('relay', true, oneOf(true, false, 'manual'), 'one process does both until you split them'),
  row(
    'wakeUp',
    undefined,
    oneOf('notify', 'poll'),
    'other processes publish within milliseconds of a commit',
    'notify on PostgreSQL, poll elsewhere and behind a pooler',
  ),
  row('database.setup', 'check', oneOf('check', 'create', 'none'), 'production tables come from migrations'),
  row('database.schema', undefined, identifier(63), 'tables of the outbox stand beside yours', "the connection's"),
  row('database.prefix', 'outbox_', identifier(MAX_PREFIX), 'ten tables stand together in a list'),
  row(
    'database.poolSize',
    4,
    integer(2, 8),
    'reading, settling, leases and operators each have a connection. No more than 4 are opened',
  ),
  row(
    'database.preparedStatements',
    true,
    oneOf(true, false),
    'small statements are not parsed and planned each time. Where a pooler shows, it is off by itself',
  ),
  row(
    'database.listenUrl',
    undefined,
    postgresUrl,
    'behind a pooler the relay polls, unless this URL leads past the pooler',
    'none',
  ),
  row('store', undefined, aFunction, 'PostgreSQL, MariaDB and MySQL come with one', 'none'),
  row('currentManager', undefined, aFunction, 'only if another library keeps your transactions', 'none'),
  row('ordering', 'key', oneOf('key', 'strict', 'none', 'global'), 'order where it matters, parallel elsewhere'),
  row(
    'coordination',
    'buckets',
    oneOf('buckets', 'rowLock', 'leader'),
    'every instance publishes, nobody waits for a lock',
  ),
  row('buckets', 32, integer(1, 1024), 'the most instances that publish at once'),
  row('retry.initial', '1s', RETRY_RULES.initial, 'most failures of one message pass within seconds'),
  row('retry.max', '5m', RETRY_RULES.max, 'a fixed cause is noticed within minutes'),
  row('retry.min', '1ms', RETRY_RULES.min, 'full jitter begins at nothing'),
  row(
    'retry.backoff',
    'exponential',
    orFunction(RETRY_RULES.backoff),
    'what fails for long is asked less often. A function says each delay itself',
  ),
  row('retry.jitter', 'full', RETRY_RULES.jitter, 'messages that failed together do not come back together'),
  row(
    'retry.maxAttempts',
    20,
    RETRY_RULES.maxAttempts,
    'half an hour of tries on average, an hour at most. Outages of a broker do not count',
  ),
  row('retry.maxAge', undefined, RETRY_RULES.maxAge, 'age alone is no reason to give up', 'none'),
  row(
    'retry.errorHistory',
    0,
    integer(0, 100),
    'the last error tells enough. Each error that is kept makes the row larger',
  ),
  row('retry.classify', undefined, aFunction, 'transports know whose fault most failures are', 'none'),
  row(
    'onDead',
    'block',
    RETRY_RULES.onDead,
    "order is a promise until you give it up. A message without a key never blocks. With `ordering: 'global'` it holds the others back while it is tried again",
  ),
  row('deadLetter', undefined, aFunction, 'called at least once per death, after commit', 'none'),
  row('onPublished', 'delete', oneOf('delete', 'archive'), 'the cheapest table is an empty one'),
  row('retention.published', '7d', duration('1s', '3650d'), 'a week of archive for audit and replay'),
  row(
    'retention.dead',
    null,
    orNull(duration('1s', '3650d')),
    'a dead letter is lost business until somebody looked at it',
  ),
  row('retention.dedup', '7d', duration('1m', '3650d'), 'longer than any client retries'),
  row('retention.audit', '90d', duration('1h', '3650d'), 'what operators did is asked for weeks later'),
  row('retention.every', '1h', orCron(duration('1s', '24d')), 'small batches, often'),
  row('retention.pause', 0, duration('0ms', '1m'), 'a batch of 1,000 is over in milliseconds'),
  row(
    'partitions.period',
    undefined,
    oneOf('hour', 'day', 'month'),
    'the archive is a plain table. Set it for one in partitions, which are made and dropped here',
    'none',
  ),
  row(
    'partitions.lookahead',
    undefined,
    duration('1h', '3650d'),
    'partitions are there long before they are needed',
    '2d of hours, 30d of days, 90d of months',
  ),
  row(
    'partitions.retention',
    undefined,
    orNull(duration('1h', '36500d')),
    'a partition goes when all of it is older. `null`: never',
    'retention.published',
  ),
  row('partitions.every', '1h', duration('1m', '24d'), 'a change needs the table for a moment: rarely'),
  row(
    'partitions.lockTimeout',
    '1s',
    duration('50ms', '30s'),
    'nobody waits longer behind a change that waits for a table. MariaDB and MySQL count in whole seconds',
  ),
  row('lease', '30s', duration('10s', '1h'), 'messages of a crashed instance wait this long and two polls, at most'),
  row('batchSize', 500, integer(1, 10_000), 'all figures were measured with it'),
  row(
    'batchBytes',
    4 * 2 ** 20,
    integer(1024, 2 ** 30),
    'bounds memory: batchBytes × (batchesInFlight + 2) × transports. The message that passes the bound is still in the batch',
  ),
  row('batchesInFlight', 4, integer(1, 64), 'reading, publishing and settling overlap'),
  row(
    'pollInterval',
    '1s',
    duration('10ms', '1m'),
    'when every wake-up is lost, a message is noticed after this time at the latest',
  ),
  row(
    'publishTimeout',
    '10s',
    duration('100ms', '30m'),
    'a broker that is slower is treated as gone. The time must fit into the lease',
  ),
  row('shutdownTimeout', '10s', duration('100ms', '10m'), 'well within the 30 s that orchestrators grant'),
  row('durability', 'auto', oneOf('auto', 'always'), 'a publish waits for the disk only when the commit did not'),
  row(
    'maxPayloadBytes',
    2 ** 20,
    integer(1, 2 ** 27),
    'what RabbitMQ and a Kafka topic take by default. `kafka()` itself takes 1,036,300 with the record around it',
  ),
  row('serializer', undefined, aSerializer, 'readable everywhere', 'JSON'),
  row(
    'deserializers',
    undefined,
    someDeserializers,
    'handlers get other encodings as bytes, unless one of these reads them',
    'none',
  ),
  row('encryption', undefined, encryption, 'only where others may read the tables or their backups', 'none'),
  row('idGenerator', undefined, aFunction, 'ids that sort by time, and only grow in a process', 'UUIDv7'),
  row(
    'logger',
    undefined,
    having('log', 'warn', 'error'),
    'the lines go where the rest of your log goes',
    'Nest Logger',
  ),
  row(
    'logLevel',
    'log',
    oneOf('debug', 'log', 'warn', 'error', 'silent'),
    'one line per event of the relay. No message has a line, except a dead one',
  ),
];

function row(name: string, value: unknown, rule: Rule, reason: string, defaultText?: string): OptionRow {
  return { name, default: value, rule, reason, ...(defaultText === undefined ? {} : { defaultText }) };
}

/** What both databases take without quotes in anybody's tools; the store refuses the same. */
function identifier(length: number): Rule {
  return text(
    new RegExp(`^[a-z_][a-z0-9_]{0,${length - 1}}$`),
    `lower-case letters, digits and _, not starting with a digit, at most ${length} characters`,
  );
}
