/** One metric that is exported. Its first label is `outbox`, of an inbox `inbox`. */
export interface Metric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** Beside `outbox`, in the order in which values are given. */
  readonly labels: readonly string[];
}

const TRANSPORT = ['transport'];
const counter = (name: string, help: string, labels: readonly string[] = []): Metric =>
  metric('counter', name, help, labels);
const gauge = (name: string, help: string, labels: readonly string[] = []): Metric =>
  metric('gauge', name, help, labels);
const histogram = (name: string, help: string, labels: readonly string[] = []): Metric =>
  metric('histogram', name, help, labels);
const metric = (type: Metric['type'], name: string, help: string, labels: readonly string[]): Metric => ({
  name: `outbox_${name}`,
  type,
  help,
  labels,
});

/** Counted from the events of this process. */
export const TALLIES = {
  enqueued: counter('messages_enqueued_total', 'Messages that this process enqueued in a transaction that committed'),
  deduplicated: counter('messages_deduplicated_total', 'Messages that were not written, as their dedup key was known'),
  published: counter('messages_published_total', 'Messages that the relay of this process published', TRANSPORT),
  retried: counter('messages_retried_total', 'Failures of messages that will be tried again', TRANSPORT),
  dead: counter('messages_dead_total', 'Messages that died in the relay of this process', TRANSPORT),
  failures: counter('publish_failures_total', 'Messages whose publish failed, by whose fault it was', [
    'transport',
    'blame',
  ]),
  circuitOpened: counter('circuit_opened_total', 'Times that a transport went down', TRANSPORT),
  destinationAway: counter(
    'destination_away_total',
    'Times that a destination was missing, or took nothing',
    TRANSPORT,
  ),
  leasesAcquired: counter('bucket_leases_acquired_total', 'Buckets that this relay took', TRANSPORT),
  leasesLost: counter('bucket_leases_lost_total', 'Buckets that this relay lost without giving them back', TRANSPORT),
  leasesExpired: counter('bucket_leases_expired_total', 'Buckets whose lease ran out in the hands of an instance'),
  cleaned: counter('cleaned_rows_total', 'Rows that the cleaner of this process removed', ['kind']),
  errors: counter('errors_total', 'Failures of a stage, which goes on by itself', ['operation']),
  warnings: counter('warnings_total', 'Warnings: something weakens a promise'),
  eventsDropped: counter('events_dropped_total', 'Events that were dropped, as too many waited for listeners'),
} as const;

export const DISTRIBUTIONS = {
  latency: histogram(
    'commit_to_publish_seconds',
    'Time from the id of a message to the commit of its publish; without messages that were scheduled',
    TRANSPORT,
  ),
  batch: histogram('published_batch_messages', 'Messages that were written down as published at once', TRANSPORT),
  attempts: histogram('failed_message_attempts', 'Attempts that a message had when it failed', TRANSPORT),
  publish: histogram(
    'publish_seconds',
    'Time of the publish of a batch, until it is through or failed; failed: a message of it at least',
    ['transport', 'result'],
  ),
  handler: histogram('handler_seconds', 'Time of a call of a handler in this process, until it is through or failed', [
    'handler',
    'result',
  ]),
} as const;

/** Known from the events of this process; neither counted nor asked for. */
export const EVENT_GAUGES = {
  snapshotHeldFor: gauge('snapshot_held_seconds', 'For how long an old snapshot has kept dead rows; 0: none does'),
} as const;

/** Asked of `health()`. */
export const HEALTH_GAUGES = {
  status: gauge('health_status', '1 for the status that health() answers', ['status']),
  reasons: gauge('health_reasons', 'Reasons of health(), by code', ['reason']),
  running: gauge('relay_running', '1 while the relay of this process runs'),
  databaseFailing: gauge('database_failing_seconds', 'For how long the database has not answered the relay'),
  heartbeatLate: gauge('heartbeat_late_seconds', 'By how much the last heartbeat came late: a blocked event loop'),
  snapshotHeld: gauge('snapshot_held', '1 while an old snapshot keeps dead rows in the way of reads'),
  paused: gauge('paused_seconds', 'For how long an operator has paused the transport; 0: it is not paused', TRANSPORT),
  circuit: gauge('circuit_state', '1 for the state of the circuit of a transport', ['transport', 'state']),
} as const;

/** Asked of `stats()`. */
export const COUNT_GAUGES = {
  messages: gauge('messages', 'Messages in the tables', ['transport', 'state']),
  blockedKeys: gauge('blocked_keys', 'Keys that a failed message blocks', TRANSPORT),
  oldestReadyAge: gauge('oldest_ready_age_seconds', 'Age of the oldest message that is ready; 0: none is', TRANSPORT),
  failingOften: gauge('failing_often_messages', 'Waiting messages that have failed ten times or more', TRANSPORT),
  mostAttempts: gauge('most_attempts', 'The most attempts of a message among these', TRANSPORT),
  leasedBuckets: gauge('leased_buckets', 'Buckets with a lease', TRANSPORT),
  missingLeases: gauge('missing_leases', 'Buckets without a row for their lease', TRANSPORT),
  instances: gauge('instances', 'Instances that live, and publish to the transport', TRANSPORT),
  destinationsAway: gauge('destinations_away', 'Destinations that are missing, or take nothing', TRANSPORT),
  countsCut: gauge('counts_cut', '1 while a count stopped at its limit: there may be more', TRANSPORT),
} as const;

/** Asked of the database, about all of the outbox. */
export const TABLE_GAUGES = {
  bytes: gauge('table_bytes', 'Size of a table with its indexes', ['table']),
  rows: gauge('table_rows', 'Rows of a table, about, as the database counted last', ['table']),
  deadRows: gauge('table_dead_rows', 'Deleted rows not vacuumed yet; absent on MariaDB and MySQL', ['table']),
  schemaDiffers: gauge(
    'schema_differs',
    '1 while the tables are not what this version needs: version, columns, indexes',
  ),
  snapshotAge: gauge(
    'oldest_snapshot_seconds',
    'Age of the oldest database snapshot that keeps dead rows; 0: none; absent: this login may not see it',
  ),
  snapshotTransactions: gauge(
    'oldest_snapshot_transactions',
    'Transactions whose dead rows the database keeps for its oldest snapshot',
  ),
} as const;

/** About the counts themselves. */
export const COUNTING = {
  countsAge: gauge('counts_age_seconds', 'Age of the counts that are shown; absent: there are none'),
  countFailures: counter('count_failures_total', 'Questions for the counts that failed'),
} as const;

/** Of an inbox, which an application may have without an outbox. `docs/inbox.md` has the same list. */
export const INBOX = {
  messages: counter('inbox_messages_total', 'Messages of an inbox, by what became of them', ['consumer', 'result']),
  retries: counter('inbox_retries_total', 'Tries that a deadlock ended before the effect', ['consumer']),
  oldestAge: gauge('inbox_oldest_age_seconds', 'Age of the oldest id that is remembered; 0: none is'),
  overdue: gauge('inbox_overdue_seconds', 'For how long the oldest id is past its retention; 0: it is not'),
} as const;
export const INBOX_METRICS: readonly Metric[] = Object.values(INBOX);

/** Every metric of an outbox, by name. `docs/metrics.md` has the same list. */
export const METRICS: readonly Metric[] = [
  TALLIES,
  DISTRIBUTIONS,
  EVENT_GAUGES,
  HEALTH_GAUGES,
  COUNT_GAUGES,
  TABLE_GAUGES,
  COUNTING,
].flatMap((group) => Object.values<Metric>(group));
