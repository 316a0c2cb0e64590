import type { TypeOrmModuleOptions } from '@nestjs/typeorm';
import type { Classifier, OutboxOptions } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { connect } from 'node:net';
import { RELAY, TRANSPORTS, type ProcessSettings, type RelaySettings } from '../settings.js';

export function typeOrmOptions({ store, databaseUrl }: ProcessSettings, poolSize: number): TypeOrmModuleOptions {
  const common = { url: databaseUrl, retryAttempts: 0, poolSize };
  if (store !== 'postgres') return { ...common, type: store, timezone: 'Z', connectTimeout: 3_000 };
  return { ...common, type: 'postgres', connectTimeoutMS: 3_000, poolErrorHandler: () => undefined };
}

/** The same in writers and relays, as in one application of which some instances only enqueue. */
export function outboxOptions(settings: ProcessSettings & Partial<RelaySettings>): OutboxOptions {
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
    // What no queue takes would wait for one: of the topic `nowhere` it is the message that nobody takes.
    retry: { initial: 100, max: 500, maxAttempts: 4, errorHistory: 2, classify: unroutableIsAtFault },
    logLevel: 'warn',
  };
}

const unroutableIsAtFault: Classifier = (error, { topic }) => {
  const { code, reason } = error as { code?: unknown; reason?: unknown };
  return topic === 'nowhere' && code === 'PUBLISH_REJECTED' && reason === 'unroutable' ? 'message' : undefined;
};

/** Each message says which life of which relay published it. Topics: `orders` and `seasonal`, which the consumer reads, and `nowhere`. */
function transport(settings: ProcessSettings & Partial<RelaySettings>, name: string) {
  const { broker, brokerUrl, brokerPort = 0, run = 0 } = settings;
  if (broker === 'rabbitmq') return rabbitmq({ url: brokerUrl, exchange: name, appId: String(run) });
  const socketFactory = ({ onConnect }: { onConnect: () => void }) => {
    const socket = connect({ host: '127.0.0.1', port: brokerPort }, onConnect);
    socket.setNoDelay(true);
    return socket;
  };
  return kafka({
    client: { clientId: 'chaos', brokers: [brokerUrl], connectionTimeout: 2_000, socketFactory },
    topicPrefix: `${name}.`,
    headers: { run: String(run) },
  });
}
