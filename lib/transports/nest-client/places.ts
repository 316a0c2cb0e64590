import type { OutboxMessage } from '../../outbox-message.js';
import type { ClientKind, NestClient } from './kind.js';
import { topicName } from '../kafkajs/names.js';
import { exchangeName, nameOf } from '../amqp/names.js';

/** Where ClientRMQ sends an event with this pattern, as its `dispatchEvent` decides it. */
export interface RmqPlace {
  readonly exchange: string;
  readonly routingKey: string;
}

export function rmqPlace(client: NestClient, pattern: unknown): RmqPlace {
  const queue = queueOf(client);
  if (!hasExchange(client)) return { exchange: '', routingKey: queue };
  const routingKey = typeof pattern === 'string' ? pattern : JSON.stringify(pattern);
  return { exchange: exchangeOf(client), routingKey };
}

/**
 * How a message's destination is called while it takes nothing; absent: nobody knows. A pattern function of the application is
 * not called to find that out: of what depends on it, the name expires.
 */
export function destinationsOf(
  client: NestClient,
  kind: ClientKind,
  readsOptions: boolean,
): ((message: OutboxMessage) => string | readonly string[]) | undefined {
  if (kind === 'kafka') return readsOptions ? undefined : ({ topic }) => topicName(topic);
  if (kind !== 'rmq') return undefined;
  if (!hasExchange(client)) return () => nameOf('', queueOf(client));
  const exchange = exchangeName(exchangeOf(client));
  return readsOptions ? () => exchange : ({ topic }) => [exchange, nameOf(exchangeOf(client), topic)];
}

function hasExchange({ options }: NestClient): boolean {
  return Boolean(options?.['wildcards']) || options?.['exchangeType'] === 'fanout';
}

function exchangeOf(client: NestClient): string {
  return (client.options?.['exchange'] as string | undefined) ?? queueOf(client);
}

/** Nest's default is its own. */
function queueOf(client: NestClient): string {
  const { queue } = client as { readonly queue?: string };
  return queue ?? (client.options?.['queue'] as string | undefined) ?? '';
}
