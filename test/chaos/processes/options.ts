import type { TypeOrmModuleOptions } from '@nestjs/typeorm';
import type { Classifier, OutboxOptions, TransportDefinition } from '../../../lib/index.js';
import { readSettings, RELAY, TRANSPORTS, type ProcessSettings, type RelaySettings } from '../settings.js';

/** What a broker's file `transport-….ts` has. */
interface BrokerTransport {
  /**
   * Each message says which life of which relay published it. Topics: `orders` and `seasonal`, which the consumer reads, and
   * `nowhere`, whose messages are at fault themselves.
   */
  transport(settings: TransportSettings, name: string): TransportDefinition;
  /** Where the transport would have them wait for `nowhere`. */
  readonly classify?: Classifier;
}
export type TransportSettings = ProcessSettings & Partial<RelaySettings>;
const { broker } = readSettings();
const { transport, classify } = (await import(`./transport-${broker}.js`)) as BrokerTransport;

export function typeOrmOptions({ store, databaseUrl }: ProcessSettings, poolSize: number): TypeOrmModuleOptions {
  const common = { url: databaseUrl, retryAttempts: 0, poolSize };
  if (store !== 'postgres') return { ...common, type: store, timezone: 'Z', connectTimeout: 3_000 };
  return { ...common, type: 'postgres', connectTimeoutMS: 3_000, poolErrorHandler: () => undefined };
}

/** The same in writers and relays, as in one application of which some instances only enqueue. */
export function outboxOptions(settings: TransportSettings): OutboxOptions {
  const { lease, pollInterval, publishTimeout, shutdownTimeout, batchSize, batchesInFlight, buckets } = RELAY;
  const { listenUrl } = settings;
  return {
    ...(listenUrl === undefined ? {} : { database: { pooler: listenUrl } }),
    transports: Object.fromEntries(TRANSPORTS.map((name) => [name, transport(settings, name)])),
    defaultTransport: TRANSPORTS[0],
    ordering: settings.ordering,
    lease,
    pollInterval,
    publishTimeout,
    shutdownTimeout,
    batchSize,
    batchesInFlight,
    buckets,
    onDead: 'skip',
    retry: { initial: 100, max: 500, maxAttempts: 4, errorHistory: 2, ...(classify !== undefined && { classify }) },
    logLevel: 'warn',
  };
}
