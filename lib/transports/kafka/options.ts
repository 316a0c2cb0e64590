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
   * kafkajs' configuration, SASL and TLS included, or a `Kafka` object, or what gives one of them. Producers are made
   * by the transport in any case; a `Kafka` object given here is never changed or closed.
   */
  client:
    Client | Token | { inject?: readonly Token[]; useFactory: (...dependencies: never[]) => Client | Promise<Client> };
  /** Settings of kafkajs' producers that are not named below. Retries are cut short by the publish timeout. */
  producer?: Pick<ProducerConfig, 'retry' | 'metadataMaxAge' | 'transactionTimeout'>;
  /** Producers at most, opened when batches overlap; each has its own connections. Default 4. */
  producers?: number;
  /**
   * `default` agrees with the Java client's choice by key; `legacy` with kafkajs 1. With a function of your own the outbox
   * publishes one message of a key at a time, because it cannot know that a key keeps its partition.
   */
  partitioner?: 'default' | 'legacy' | ICustomPartitioner;
  /** All but `gzip` need their codec registered in kafkajs. Default `none`. */
  compression?: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
  /** -1: all in-sync replicas have the message. 1 weakens the promise: a leader that dies loses what it confirmed. Default -1. */
  acks?: -1 | 1;
  /** Default true, except with `acks: 1`. */
  idempotent?: boolean;
  /**
   * One transaction per produce request, so that `read_committed` consumers see it whole or not at all. Slow. Give a
   * `transactionalId` that is unique per instance and stable over restarts: the next start then ends what a crash left open.
   */
  transactional?: boolean | { transactionalId: string };
  /**
   * A relay that froze and lost its buckets to another one cannot append any more when it wakes up: one transactional id per
   * bucket, `transactionalId` and its number, which the broker gives to the relay that asked last. For consumers that read
   * `read_committed`. The same in all instances of one outbox, another one for every outbox and transport that shares the cluster. One transaction per
   * batch, and a batch holds one bucket: slow (`docs/transports/kafka.md`). Not with `coordination: 'rowLock'`. Default off.
   */
  fencing?: { transactionalId: string };
  /** Default false: a topic that does not exist is an outage of that topic, and its messages wait without an attempt. */
  allowAutoTopicCreation?: boolean;
  /**
   * Whether a relay that is connected asks, before any message, if the topics that event classes name are there. Default true. Off
   * where a shared event class names what this process never sends to.
   */
  checkDestinations?: boolean;
  /** Put before every topic. */
  topicPrefix?: string;
  /**
   * The time that a record bears, by which Kafka removes it (`retention.ms`) or refuses it. `published`: of the publish, so that what
   * waited in an outage is kept as long as anything else. `enqueued`: of the enqueue, as the header `time`. `options.kafka.timestamp` of a message wins. Default `published`.
   */
  timestamp?: 'published' | 'enqueued';
  /** Added to every message; a message's own header of the same name wins. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** CloudEvents 1.0, binary mode. `true` takes the `clientId` as the source. */
  cloudEvents?: boolean | CloudEventsOptions;
  /** The topics' `max.message.bytes`, from 12,289: 12 KiB are kept for key and headers. Default 1,048,588, as Kafka's. */
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
