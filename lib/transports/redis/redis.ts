import type { TransportDefinition } from '../../outbox.options.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { markFactory } from '../../options/factory-options.js';
import { brokerAddress } from '../broker-address.js';
import type { BrokerClient } from '../session/session.js';
import { SessionTransport } from '../session/transport.js';
import type { TransportLimits } from '../transport.js';
import { loadIoredis, type RedisConstructor } from './client.js';
import { diagnose } from './diagnose.js';
import { createEntry } from './entry.js';
import { judge } from './errors.js';
import { redisLimits } from './limits.js';
import { resolveRedisOptions, type RedisOptions, type RedisSettings } from './options.js';
import { connectClient, RedisSession } from './session.js';
import { askBeside, findMissing, streamName, streamsOf } from './streams.js';

/** Publishes to Redis Streams through ioredis, which is loaded when a relay starts. */
export function redis(options: RedisOptions): TransportDefinition {
  const settings = resolveRedisOptions(options);
  const limits = redisLimits(settings.maxPayloadBytes);
  const broker = addressOf(settings);
  return {
    kind: 'redis',
    ...(broker === undefined ? {} : { broker }),
    receipt: 'broker',
    limits,
    warnings: settings.maxLength === undefined ? [] : [trimmingWarning(settings.maxLength)],
    create: async () => new SessionTransport(redisBroker(await loadIoredis(), settings, limits)),
  };
}
markFactory(redis, 'redis({ … })');

function redisBroker(Redis: RedisConstructor, settings: RedisSettings, limits: TransportLimits): BrokerClient {
  const { streamPrefix, createStreams } = settings;
  const encode = createEntry(settings);
  const destinationOf = ({ topic }: OutboxMessage): string => streamName(streamPrefix + topic);
  const open = (signal: AbortSignal) => connectClient(Redis, settings, signal);
  return {
    name: 'Redis',
    limits,
    async open(signal, events) {
      let session: RedisSession | undefined;
      const client = await connectClient(Redis, settings, signal, (failure) => session?.lost(failure));
      session = new RedisSession(client, events, encode, settings);
      return session;
    },
    judge: (error, message) => judge(error, message, message && destinationOf(message)),
    destinationOf,
    findMissing: async (expected, signal) => {
      const streams = streamsOf(expected, streamPrefix, MOST);
      if (streams.length === 0) return [];
      return askBeside(open, signal, (client) => findMissing(client, streams, createStreams));
    },
    diagnose: (question, signal) => askBeside(open, signal, (client) => diagnose(client, settings, question)),
  };
}

function addressOf({ url, client }: RedisSettings): string | undefined {
  const { host, port, sentinels } = Object(client) as { host?: unknown; port?: unknown; sentinels?: unknown };
  const nodes = Array.isArray(sentinels) ? (sentinels as { host?: unknown; port?: unknown }[]) : [{ host, port }];
  return brokerAddress(url === undefined ? nodes.map((node) => ({ hostname: node?.host, port: node?.port })) : [url]);
}

const trimmingWarning = (maxLength: number): string =>
  `redis({ maxLength: ${maxLength} }): a stream that is longer loses its oldest entries, also those that no consumer has read. Leave maxLength out and trim by XTRIM MINID what all groups have acknowledged.`;

/** Streams of one question. */
const MOST = 1_000;
