import { randomUUID } from 'node:crypto';
import type { ICustomPartitioner, ProducerConfig } from 'kafkajs';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { markFactory } from '../../options/factory-options.js';
import { brokerAddress } from '../broker-address.js';
import { createEnvelope, type CloudEventsOptions } from '../envelope.js';
import { fromConfig, fromInstance, loadKafkaJs, RETRY, SocketGuard, type GuardedKafka } from '../kafkajs/client.js';
import { headerSize, kafkaLimits, MAX_MESSAGE_BYTES } from '../kafkajs/limits.js';
import {
  brokersProblem,
  checkKafkaOptions,
  COMPRESSIONS,
  invalid,
  isClient,
  isFactory,
  type Client,
  type KafkaOptions,
} from './options.js';
import type { KafkaAsker } from './missing.js';
import { byKey, pinning } from './partitioner.js';
import { KafkaProducer, type ProducerNews, type SendSettings } from './producer.js';
import type { RecordSettings } from './records.js';
import { KafkaTransport } from './transport.js';

/** Publishes to Apache Kafka with kafkajs. Inert until a relay runs. */
export function kafka(options: KafkaOptions): TransportDefinition {
  return kafkaSending(options);
}
markFactory(kafka, 'kafka({ … })');

/** @param given topics and records that are sent in place of our own: those of a key may go to several partitions */
export function kafkaSending(options: KafkaOptions, given?: RecordSettings['given']): TransportDefinition {
  checkKafkaOptions(options);
  const { client } = options;
  const { topicPrefix, maxMessageBytes, headers } = options;
  const limits = kafkaLimits({ topicPrefix, maxMessageBytes, headers, cloudEvents: Boolean(options.cloudEvents) });
  const warnings = deliveryWarnings(options);
  const broker = brokersOf(client);
  const definition = { kind: 'kafka', ...broker, receipt: 'broker' as const, limits, warnings };
  if (isClient(client)) return { ...definition, create: () => createTransport(options, client, limits, given) };
  if (isFactory(client)) {
    const useFactory = client.useFactory as (...dependencies: unknown[]) => Client | Promise<Client>;
    return {
      ...definition,
      inject: client.inject ?? [],
      create: async (...dependencies) => createTransport(options, await useFactory(...dependencies), limits, given),
    };
  }
  return {
    ...definition,
    inject: [client],
    create: (found) => createTransport(options, found as Client, limits, given),
  };
}

/** Of a configuration; a Kafka object keeps them to itself. */
function brokersOf(client: unknown): { broker?: string } {
  const brokers = (client as { brokers?: unknown } | null | undefined)?.brokers;
  const broker = Array.isArray(brokers) ? brokerAddress(brokers) : undefined;
  return broker === undefined ? {} : { broker };
}

async function createTransport(
  options: KafkaOptions,
  client: Client,
  limits: KafkaTransport['limits'],
  given: RecordSettings['given'],
): Promise<KafkaTransport> {
  if (!isClient(client)) throw invalid('client', 'is neither a Kafka object nor a configuration with `brokers`');
  const problem = 'producer' in client ? undefined : brokersProblem(client.brokers);
  if (problem !== undefined) throw invalid('client.brokers', problem);
  const guarded = 'producer' in client ? fromInstance(client) : fromConfig(await loadKafkaJs(), client);
  const compression = COMPRESSIONS[options.compression ?? 'none'];
  if (compression > COMPRESSIONS.gzip) await requireCodec(compression);
  const clientId = 'brokers' in client ? client.clientId : undefined;
  const maxBytes = options.maxMessageBytes ?? MAX_MESSAGE_BYTES;
  const cloudEvents = cloudEventsOf(options, clientId);
  const envelope = createEnvelope({ headers: options.headers, cloudEvents });
  const { acks = -1, transactional } = options;
  const settings: SendSettings = { acks, compression, transactional: Boolean(transactional) };
  const fenced = { ...settings, transactional: true };
  const configOf = producerConfig(options, pinning(await partitionerOf(options)));
  return new KafkaTransport({
    records: {
      envelope,
      topicPrefix: options.topicPrefix ?? '',
      timestamp: options.timestamp,
      maxBytes,
      fixedHeaderBytes: 3 * (cloudEvents?.source.length ?? 0) + headerSize(options.headers ?? {}),
      given,
    },
    limits,
    atomicRuns: given === undefined && typeof options.partitioner !== 'function',
    producers: options.producers ?? 4,
    checkDestinations: options.checkDestinations !== false && options.allowAutoTopicCreation !== true,
    openProducer: (slot, news) => new KafkaProducer(guarded, configOf(slot), settings, news),
    openAdmin: () => openAdmin(guarded),
    openFenced: fencedBy(options, (config, news) => new KafkaProducer(guarded, config, fenced, news), configOf),
  });
}

function openAdmin(guarded: GuardedKafka): KafkaAsker {
  const guard = new SocketGuard(); // what is wrong with one topic is no failure of the question about all
  return { guard, admin: guarded(guard).admin({ retry: RETRY }) };
}

function deliveryWarnings({ acks, idempotent }: KafkaOptions): string[] {
  if (acks === 1) return [ACKS_WARNING]; // which is never idempotent
  return idempotent === false ? [IDEMPOTENT_WARNING] : [];
}

type Open = (config: ProducerConfig, news: ProducerNews) => KafkaProducer;

function fencedBy({ fencing }: KafkaOptions, open: Open, configOf: (slot: number) => ProducerConfig) {
  if (fencing === undefined) return undefined;
  return (bucket: number, news: ProducerNews) =>
    open({ ...configOf(0), transactionalId: `${fencing.transactionalId}-${bucket}` }, news);
}

function producerConfig(
  options: KafkaOptions,
  createPartitioner: ICustomPartitioner,
): (slot: number) => ProducerConfig {
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

async function requireCodec(compression: number): Promise<void> {
  const { CompressionCodecs } = await loadKafkaJs();
  try {
    (CompressionCodecs as Record<number, () => unknown>)[compression]!();
  } catch (cause) {
    const text = 'kafka(): the codec of this compression is not registered in kafkajs.';
    const hint = 'Set CompressionCodecs[CompressionTypes.…] before the application starts, or use gzip.';
    throw new OutboxConfigurationError('MISSING_PEER', text, { cause, hint });
  }
}

const ACKS_WARNING =
  'kafka({ acks: 1 }): messages that the leader confirmed can be lost when it fails. Leave acks out: all in-sync replicas confirm then.';
const IDEMPOTENT_WARNING =
  'kafka({ idempotent: false }): one send may append a record twice, when the answer to its first try is lost. Leave idempotent out.';
