import { randomUUID } from 'node:crypto';
import type { ICustomPartitioner, Kafka, KafkaConfig, ProducerConfig } from 'kafkajs';
import type { HeaderValue } from '../../message.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { createEnvelope, type CloudEventsOptions } from './envelope.js';
import { fromConfig, fromInstance, loadKafkaJs, RETRY, type GuardedKafka } from './kafka-client.js';
import { kafkaLimits, MAX_MESSAGE_BYTES, topicProblem } from './kafka-limits.js';
import { byKey, pinning } from './kafka-partitioner.js';
import { KafkaProducer, type SendSettings } from './kafka-producer.js';
import { KafkaTransport } from './kafka-transport.js';

type Token = NonNullable<TransportDefinition['inject']>[number];
type Client = Kafka | KafkaConfig;

export interface KafkaOptions {
  /**
   * kafkajs' configuration, SASL and TLS included, or a `Kafka` object, or what gives one of them. Producers are made
   * by the transport in any case; a `Kafka` object given here is never changed or closed.
   */
  client: Client | Token | { inject?: readonly Token[]; useFactory: (...dependencies: never[]) => Client | Promise<Client> };
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
  /** Default false: a topic that does not exist is a failure of the message. */
  allowAutoTopicCreation?: boolean;
  /** Put before every topic. */
  topicPrefix?: string;
  /** Added to every message; a message's own header of the same name wins. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** CloudEvents 1.0, binary mode. `true` takes the `clientId` as the source. */
  cloudEvents?: boolean | CloudEventsOptions;
  /** The topics' `max.message.bytes`. Default 1,048,588, as Kafka's. */
  maxMessageBytes?: number;
}

const COMPRESSIONS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const;

/** Publishes to Apache Kafka with kafkajs. Inert until a relay runs. */
export function kafka(options: KafkaOptions): TransportDefinition {
  check(options);
  const { client } = options;
  const limits = kafkaLimits(options.topicPrefix ?? '', options.maxMessageBytes ?? MAX_MESSAGE_BYTES);
  const definition = { kind: 'kafka', receipt: 'broker' as const, limits };
  if (isClient(client)) return { ...definition, create: () => createTransport(options, client, limits) };
  if (isFactory(client)) {
    const useFactory = client.useFactory as (...dependencies: unknown[]) => Client | Promise<Client>;
    return {
      ...definition,
      inject: client.inject ?? [],
      create: async (...dependencies) => createTransport(options, await useFactory(...dependencies), limits),
    };
  }
  return { ...definition, inject: [client], create: (given) => createTransport(options, given as Client, limits) };
}

async function createTransport(options: KafkaOptions, client: Client, limits: KafkaTransport['limits']): Promise<KafkaTransport> {
  if (!isClient(client)) throw invalid('client', 'is neither a Kafka object nor a configuration with `brokers`');
  const guarded = 'producer' in client ? fromInstance(client) : fromConfig(await loadKafkaJs(), client);
  const compression = COMPRESSIONS[options.compression ?? 'none'];
  if (compression > COMPRESSIONS.gzip) await requireCodec(compression);
  const clientId = 'brokers' in client ? client.clientId : undefined;
  const maxBytes = options.maxMessageBytes ?? MAX_MESSAGE_BYTES;
  const envelope = createEnvelope({ headers: options.headers, cloudEvents: cloudEventsOf(options, clientId) });
  const settings: SendSettings = { acks: options.acks ?? -1, compression, transactional: Boolean(options.transactional) };
  const configOf = producerConfig(options, pinning(await partitionerOf(options)));
  if (settings.acks !== -1) warnAboutAcks();
  return new KafkaTransport({
    records: { envelope, topicPrefix: options.topicPrefix ?? '', maxBytes, fixedHeaderBytes: fixedHeaderBytes(options, clientId) },
    limits,
    atomicRuns: typeof options.partitioner !== 'function',
    producers: options.producers ?? 4,
    openProducer: (slot) => new KafkaProducer(guarded, configOf(slot), settings),
  });
}

function producerConfig(options: KafkaOptions, createPartitioner: ICustomPartitioner): (slot: number) => ProducerConfig {
  const { transactional, acks = -1, producer = {}, allowAutoTopicCreation = false } = options;
  const transactionalId = typeof transactional === 'object' ? transactional.transactionalId : `outbox-${randomUUID()}`;
  return (slot) => ({
    ...producer,
    retry: { ...RETRY, ...producer.retry },
    createPartitioner,
    allowAutoTopicCreation,
    idempotent: options.idempotent ?? acks === -1,
    maxInFlightRequests: 1,
    ...(transactional ? { transactionalId: `${transactionalId}-${slot}` } : {}),
  });
}

async function partitionerOf({ partitioner }: KafkaOptions): Promise<ICustomPartitioner> {
  if (typeof partitioner === 'function') return partitioner;
  return partitioner === 'legacy' ? (await loadKafkaJs()).Partitioners.LegacyPartitioner : byKey;
}

function cloudEventsOf({ cloudEvents }: KafkaOptions, clientId: string | undefined): CloudEventsOptions | undefined {
  if (!cloudEvents) return undefined;
  return cloudEvents === true ? { source: encodeURI(clientId ?? 'nestjs-outbox') } : cloudEvents;
}

function fixedHeaderBytes(options: KafkaOptions, clientId: string | undefined): number {
  const source = cloudEventsOf(options, clientId)?.source ?? '';
  let bytes = 3 * source.length;
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    for (const one of Array.isArray(value) ? (value as string[]) : [value as string]) {
      bytes += Buffer.byteLength(name) + Buffer.byteLength(one) + 8;
    }
  }
  return bytes;
}

async function requireCodec(compression: number): Promise<void> {
  const { CompressionCodecs } = await loadKafkaJs();
  try {
    (CompressionCodecs as Record<number, () => unknown>)[compression]!();
  } catch (cause) {
    throw new OutboxConfigurationError('MISSING_PEER', 'kafka(): the codec of this compression is not registered in kafkajs.', {
      cause,
      hint: 'Set CompressionCodecs[CompressionTypes.…] before the application starts, or use gzip.',
    });
  }
}

function warnAboutAcks(): void {
  process.emitWarning('kafka({ acks: 1 }): messages that the leader confirmed can be lost when it fails.', { code: 'OUTBOX_KAFKA_ACKS' });
}

function check(options: KafkaOptions): void {
  const { client, acks = -1, idempotent, transactional, producers = 4, topicPrefix, compression, partitioner, producer } = options;
  if (client === undefined || client === null) throw invalid('client', 'is missing');
  if (acks !== -1 && acks !== 1) throw invalid('acks', 'must be -1 (all in-sync replicas) or 1');
  if (acks === 1 && (idempotent === true || transactional)) throw invalid('acks', 'must be -1 for an idempotent or transactional producer');
  if (transactional && idempotent === false) throw invalid('idempotent', 'cannot be false for a transactional producer');
  if (typeof transactional === 'object' && !transactional.transactionalId) throw invalid('transactional.transactionalId', 'is empty');
  if (!Number.isInteger(producers) || producers < 1 || producers > 32) throw invalid('producers', 'must be an integer from 1 to 32');
  if (compression !== undefined && !Object.hasOwn(COMPRESSIONS, compression)) throw invalid('compression', `must be one of ${Object.keys(COMPRESSIONS).join(', ')}`);
  if (typeof partitioner === 'string' && partitioner !== 'default' && partitioner !== 'legacy') throw invalid('partitioner', 'must be default, legacy or a function');
  if ((idempotent ?? acks === -1) && (producer?.retry?.retries ?? 1) < 1) throw invalid('producer.retry.retries', 'must be at least 1 for an idempotent producer');
  const problem = topicPrefix ? topicProblem(topicPrefix) : undefined;
  if (problem !== undefined) throw invalid('topicPrefix', problem);
}

function invalid(path: string, problem: string): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', `kafka(): ${path} ${problem}.`);
}

function isClient(client: unknown): client is Client {
  return typeof client === 'object' && client !== null && ('brokers' in client || ('producer' in client && 'admin' in client));
}

function isFactory(client: unknown): client is { inject?: readonly Token[]; useFactory: (...dependencies: never[]) => Client | Promise<Client> } {
  return typeof client === 'object' && client !== null && 'useFactory' in client;
}
