import type { TransportContract, TransportLimits } from '../transport.js';
import { noObject } from '../../options/option-names.js';
import { kafkaLimits } from '../kafkajs/limits.js';
import { rmqClientLimits } from './rmq-limits.js';

/**
 * What one kind of Nest client can promise. It is told from class names along the prototype chain, so that nothing of
 * `@nestjs/microservices` is loaded and a second copy of it does no harm.
 */
export type ClientKind = 'kafka' | 'rmq' | 'redis' | 'nats' | 'mqtt' | 'tcp' | 'grpc' | 'custom';

/** The part of a Nest client that is used here, its protected half included. */
export interface NestClient {
  emit(pattern: unknown, data: unknown): EmitResult;
  connect(): Promise<unknown>;
  close(): unknown;
  serializer?: { serialize(packet: unknown, options?: unknown): unknown };
  options?: ClientOptions;
}
export interface EmitResult {
  subscribe(observer: { next(value: unknown): void; error(error: unknown): void; complete(): void }): {
    unsubscribe(): void;
  };
}
export interface ClientOptions {
  readonly producer?: { readonly idempotent?: boolean };
  readonly send?: { readonly acks?: number };
  readonly [name: string]: unknown;
}

const KIND_OF_CLASS: Readonly<Record<string, ClientKind>> = {
  ClientKafka: 'kafka',
  ClientRMQ: 'rmq',
  ClientRedis: 'redis',
  ClientNats: 'nats',
  ClientMqtt: 'mqtt',
  ClientTCP: 'tcp',
  ClientGrpcProxy: 'grpc',
};

export function isNestClient(value: unknown): value is NestClient {
  const client = value as Partial<NestClient> | null | undefined;
  return typeof client === 'object' && client !== null && typeof client.emit === 'function' && 'connect' in client;
}

export function kindOfClient(client: object): ClientKind {
  for (let proto: unknown = Object.getPrototypeOf(client); proto !== null; proto = Object.getPrototypeOf(proto)) {
    const name = (proto as object).constructor?.name;
    const kind = Object.hasOwn(KIND_OF_CLASS, name) ? KIND_OF_CLASS[name] : undefined;
    if (kind !== undefined) return kind;
  }
  return 'custom';
}

/** Only Kafka and RabbitMQ clients wait for the broker, and Kafka not with `send: { acks: 0 }`. */
export function receiptOf(client: NestClient): TransportContract['receipt'] {
  const kind = kindOfClient(client);
  if (kind === 'rmq') return 'broker';
  return kind === 'kafka' && client.options?.send?.acks !== 0 ? 'broker' : 'none';
}

/**
 * kafkajs gives each send its sequence number, and winds it back when the answer is lost. `emit` sends many at once: the next
 * one goes out with a number that the broker has seen, is confirmed as a repetition, and is not stored.
 */
export function isIdempotentKafka(client: NestClient): boolean {
  return kindOfClient(client) === 'kafka' && Boolean(client.options?.producer?.idempotent);
}

/** One sentence for health and the start line. */
export const WORTH: Readonly<Record<ClientKind, string>> = {
  kafka: 'the broker stored the record',
  rmq: 'the broker confirmed the message; a returned one counts as a failure',
  redis: 'the server passed it to whoever listened at that moment; nothing is stored',
  nats: 'the server read it; nothing is stored',
  mqtt: 'the server read it, or, where the message asks for another QoS than 0, took it; whether anybody subscribed is unknown',
  tcp: 'the bytes were handed to the kernel',
  grpc: 'gRPC has no events',
  custom: 'unknown: the client is not one of those that Nest ships',
};

/** @param readsOptions whether functions of the application see the message: its pattern, its record */
export function limitsOf(kind: ClientKind, readsOptions: boolean): TransportLimits {
  if (kind === 'kafka') return kafkaLimits();
  return kind === 'rmq' ? rmqClientLimits(readsOptions) : PLAIN_LIMITS;
}
/** Of a client that only its token is known of. */
export const ANY_LIMITS: TransportLimits = {
  check: ({ options }) => noObject('options.kafka', options.kafka) ?? noObject('options.rabbitmq', options.rabbitmq),
};
/** `emit(pattern, null)` is refused by Nest where no record wraps the payload. */
const PLAIN_LIMITS: TransportLimits = { tombstones: false };
