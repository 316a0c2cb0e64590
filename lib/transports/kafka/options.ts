import type { ICustomPartitioner, Kafka, KafkaConfig, ProducerConfig } from 'kafkajs';
import type { HeaderValue } from '../../outbox-message.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import type { CloudEventsOptions } from '../envelope.js';
import { LEAST_MESSAGE_BYTES, topicProblem } from '../kafkajs/limits.js';
import { resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import {
  anything,
  fixedHeaders,
  INVALID,
  integer,
  oneOf,
  orFunction,
  trueOrFalse,
  type Rule,
} from '../../options/rules.js';

export type Token = NonNullable<TransportDefinition['inject']>[number];
export type Client = Kafka | KafkaConfig;

export interface KafkaOptions {
  /**
   * Says how to reach Kafka: kafkajs' configuration with SASL and TLS, a `Kafka` object, its DI token, or a factory of either.
   * The transport makes its own producers. It never changes or closes a `Kafka` object that it is given. Required.
   */
  client:
    Client | Token | { inject?: readonly Token[]; useFactory: (...dependencies: never[]) => Client | Promise<Client> };
  /** Passes further settings to kafkajs' producers. Their retries end with the publish timeout. Default: kafkajs' own. */
  producer?: Pick<ProducerConfig, 'retry' | 'metadataMaxAge' | 'transactionTimeout'>;
  /** Limits the producers. Further ones open when batches overlap, each with connections of its own. Default: 4. */
  producers?: number;
  /**
   * Chooses the partition by key: `default` as the Java client does, `legacy` as kafkajs 1 does. With a function of your own the
   * outbox publishes one message of a key at a time, because it cannot know that a key keeps its partition. Default: `default`.
   */
  partitioner?: 'default' | 'legacy' | ICustomPartitioner;
  /** Compresses record batches. All codecs except `gzip` must be registered in kafkajs. Default: `none`. */
  compression?: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
  /**
   * Sets who must have a record before it counts as published: all in-sync replicas (-1), or the leader alone (1). With 1, a
   * leader that dies loses records that it has confirmed. Default: -1.
   */
  acks?: -1 | 1;
  /** Makes the broker drop a record that a producer sends twice. Default: true, but false with `acks: 1`. */
  idempotent?: boolean;
  /**
   * Sends each produce request in a transaction, so that `read_committed` consumers see it whole or not at all. It is slow. Give a
   * `transactionalId` that is unique per instance and stable over restarts: the next start then ends a transaction that a crash
   * left open. Default: false.
   */
  transactional?: boolean | { transactionalId: string };
  /**
   * Stops a relay that froze and lost its buckets from appending when it wakes up. Each bucket has a transactional id, made of
   * `transactionalId` and its number, and the broker gives it to the relay that asked last. Consumers must read `read_committed`.
   * All instances of one outbox use the same `transactionalId`; every other outbox and transport on the cluster uses another one.
   * It is slow, with one transaction per batch and one bucket per batch (docs/transports/kafka.md). It cannot be used with
   * `coordination: 'rowLock'`. Default: off.
   */
  fencing?: { transactionalId: string };
  /** Lets the broker create a missing topic. Otherwise the messages of that topic wait without an attempt. Default: false. */
  allowAutoTopicCreation?: boolean;
  /**
   * Makes a relay that has connected ask, before any message, whether the topics exist that event classes name. Turn it off where a
   * shared event class names a topic that this process never sends to. Default: true.
   */
  checkDestinations?: boolean;
  /** Is put in front of every topic. Default: none. */
  topicPrefix?: string;
  /**
   * Sets the timestamp of a record, by which Kafka removes it (`retention.ms`) or refuses it. `published` is the time of the publish,
   * so that a message that waited in an outage is kept as long as any other. `enqueued` is the time of the enqueue, as in the header
   * `time`. `options.kafka.timestamp` of a message wins. Default: `published`.
   */
  timestamp?: 'published' | 'enqueued';
  /** Adds headers to every message. A message's own header of the same name wins. Default: none. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** Writes headers of CloudEvents 1.0 in binary mode. `true` takes the `clientId` as the source. Default: false. */
  cloudEvents?: boolean | CloudEventsOptions;
  /**
   * Tells the transport the topics' `max.message.bytes`, 12,289 at least: 12 KiB are kept for key and headers. `enqueue` refuses
   * what does not fit. Default: 1,048,588, as Kafka's.
   */
  maxMessageBytes?: number;
}

export const COMPRESSIONS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const;

const prefix: Rule = {
  allowed: 'a text',
  parse: (value) => (typeof value === 'string' ? value : INVALID),
  inside(value, path) {
    const problem = value === '' ? undefined : topicProblem(value as string);
    return problem === undefined ? [] : [`${path} ${problem}`];
  },
};

const cloudEvents: Rule = {
  ...anything,
  inside(value, path) {
    const { source } = Object(value) as { source?: unknown };
    const isRight = !value || value === true || (typeof source === 'string' && source !== '');
    return isRight ? [] : [`${path}.source must be a URI reference, such as /shop`];
  },
};

const transactional: Rule = {
  ...anything,
  inside: (value, path) =>
    typeof value === 'object' && !(Object(value) as { transactionalId?: unknown }).transactionalId
      ? [`${path}.transactionalId is empty`]
      : [],
};

const [LEAST, MOST] = [LEAST_MESSAGE_BYTES, 2 ** 31 - 1];

const TABLE: FactoryTable<KafkaOptions> = {
  factory: 'kafka()',
  needed: 'client',
  rows: {
    client: row({ ...anything, needed: true, inside: clientProblems }),
    producer: row(anything),
    producers: row(integer(1, 32)),
    partitioner: row(orFunction(oneOf('default', 'legacy'))),
    compression: row(oneOf(...Object.keys(COMPRESSIONS))),
    acks: row({
      allowed: '-1 (all in-sync replicas) or 1',
      parse: (value) => (value === -1 || value === 1 ? value : INVALID),
    }),
    idempotent: row(anything),
    transactional: row(transactional),
    fencing: row(anything),
    allowAutoTopicCreation: row(anything),
    checkDestinations: row(trueOrFalse),
    topicPrefix: row(prefix),
    timestamp: row(oneOf('published', 'enqueued')),
    headers: row(fixedHeaders),
    cloudEvents: row(cloudEvents),
    maxMessageBytes: row({
      ...integer(LEAST, MOST),
      allowed: `a whole number from ${LEAST} (12 KiB are kept for key and headers) to ${MOST}`,
    }),
  },
  // Of kafkajs' configuration: given beside `client` by mistake.
  inner: Object.fromEntries(
    ['brokers', 'clientId', 'ssl', 'sasl', 'connectionTimeout', 'requestTimeout'].map((name) => [
      name,
      `client.${name}`,
    ]),
  ),
  across: (options) => [...fencingProblems(options), ...deliveryProblems(options)],
};

/** Throws over all that is wrong. */
export function checkKafkaOptions(options: KafkaOptions): void {
  resolveFactory(TABLE, options);
}

/** What is no configuration of kafkajs is a DI token, a factory or a `Kafka` object; no token is an object but a forward reference. */
function clientProblems(client: unknown, path: string): string[] {
  if (client === undefined || client === null) return [`${path} is missing`];
  if (typeof client !== 'object' || isFactory(client) || 'forwardRef' in client) return [];
  if ('producer' in client && 'admin' in client) return [];
  const problem = brokersProblem((client as { brokers?: unknown }).brokers);
  return problem === undefined ? [] : [`${path}.brokers ${problem}`];
}

/** kafkajs would take a text for a list of servers with names of one letter, and look for them for ever. */
export function brokersProblem(brokers: unknown): string | undefined {
  if (brokers === undefined || brokers === null) return 'is missing';
  if (typeof brokers === 'function') return undefined;
  if (!Array.isArray(brokers) || brokers.some((broker) => typeof broker !== 'string' || broker === ''))
    return "must be an array of texts such as 'host:9092', or a function that gives one";
  return brokers.length === 0 ? 'is empty' : undefined;
}

function deliveryProblems(options: KafkaOptions): string[] {
  const { acks = -1, idempotent, transactional, producer } = options;
  const problems: string[] = [];
  if (acks === 1 && (idempotent === true || transactional))
    problems.push('acks must be -1 for an idempotent or transactional producer');
  if (transactional && idempotent === false) problems.push('idempotent cannot be false for a transactional producer');
  if ((idempotent ?? acks === -1) && (producer?.retry?.retries ?? 1) < 1)
    problems.push('producer.retry.retries must be at least 1 for an idempotent producer');
  return problems;
}

function fencingProblems({ fencing, transactional, producers, acks, idempotent }: KafkaOptions): string[] {
  if (fencing === undefined) return [];
  const problems: string[] = [];
  if (typeof fencing?.transactionalId !== 'string' || fencing.transactionalId === '')
    problems.push(
      'fencing.transactionalId is missing; must be the same in all instances of this outbox, and nobody else’s',
    );
  if (transactional) problems.push('transactional is part of fencing; one of them must go');
  if (producers !== undefined) problems.push('producers must go: fencing has one for each bucket');
  if (acks === 1 || idempotent === false) problems.push('fencing needs acks -1 and idempotent producers');
  return problems;
}

export function invalid(path: string, problem: string): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', `kafka(): ${path} ${problem}.`);
}

export function isClient(client: unknown): client is Client {
  return (
    typeof client === 'object' &&
    client !== null &&
    ('brokers' in client || ('producer' in client && 'admin' in client))
  );
}

export function isFactory(
  client: unknown,
): client is { inject?: readonly Token[]; useFactory: (...dependencies: never[]) => Client | Promise<Client> } {
  return typeof client === 'object' && client !== null && 'useFactory' in client;
}
