import type { OutboxMessage } from '../../outbox-message.js';
import { loadPeer } from '../load-peer.js';

/**
 * The part of amqplib that is used: what 0.10, 1 and 2 have in common. Own types, because 0.10 has none and the ones of
 * 1 and 2 are not those of @types/amqplib.
 */
export interface AmqpEmitter {
  // As amqplib declares them; nothing narrower is assignable in both directions.
  // oxlint-disable-next-line typescript/no-explicit-any
  on(event: string, listener: (...args: any[]) => void): unknown;
  // oxlint-disable-next-line typescript/no-explicit-any
  removeListener(event: string, listener: (...args: any[]) => void): unknown;
}

/** A connection of amqplib's promise API (`ChannelModel`). */
export interface AmqpConnection extends AmqpEmitter {
  createChannel(): Promise<AmqpChannel>;
  createConfirmChannel(): Promise<AmqpChannel>;
  close(): Promise<void>;
  /** amqplib's inner connection; has the socket and what was negotiated. */
  readonly connection: object;
}

export interface AmqpChannel extends AmqpEmitter {
  publish(exchange: string, routingKey: string, content: Buffer, options?: object): boolean;
  assertExchange(exchange: string, type: string, options?: object): Promise<unknown>;
  checkExchange(exchange: string): Promise<unknown>;
  checkQueue(queue: string): Promise<unknown>;
  assertQueue(queue: string, options?: object): Promise<unknown>;
  bindQueue(queue: string, exchange: string, pattern: string, args?: object): Promise<unknown>;
  close(): Promise<void>;
}

/** What `publish` takes. */
export interface RabbitMqPublish {
  readonly exchange: string;
  readonly routingKey: string;
  readonly content: Buffer;
  readonly properties: object;
}
/** Throws when AMQP cannot carry the message. */
export type RabbitMqEncoder = (message: OutboxMessage) => RabbitMqPublish;

export interface Amqplib {
  connect(url: string | object, socketOptions?: object): Promise<AmqpConnection>;
}

export async function loadAmqplib(): Promise<Amqplib> {
  const load = (): Promise<unknown> => import('amqplib');
  const loaded = (await loadPeer('rabbitmq()', 'amqplib', load)) as Amqplib & { readonly default?: Amqplib };
  return loaded.default ?? loaded;
}
