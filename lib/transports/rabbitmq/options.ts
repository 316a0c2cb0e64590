import type { InjectionToken } from '@nestjs/common';
import type { Duration, HeaderValue, OutboxMessage } from '../../outbox-message.js';
import { isMisread } from '../broker-address.js';
import type { CloudEventsOptions } from '../envelope.js';
import type { AmqpChannel, AmqpConnection } from './client.js';

/** `amqp://user:password@host:port/vhost`, or amqplib's object of the same. */
export type RabbitMqUrl = string | RabbitMqServer;
/** Called for every new connection, so that a password or token that was rotated is found without a restart. */
export type RabbitMqUrlProvider = () => RabbitMqUrl | Promise<RabbitMqUrl>;
export interface RabbitMqServer {
  protocol?: 'amqp' | 'amqps';
  hostname?: string;
  port?: number;
  username?: string;
  password?: string;
  vhost?: string;
  frameMax?: number;
  channelMax?: number;
}

export interface RabbitMqTopology {
  assertExchange?: readonly { name: string; type: string; options?: object }[];
  assertQueue?: readonly { name: string; options?: object }[];
  bind?: readonly { queue: string; exchange: string; routingKey: string; arguments?: object }[];
}

/**
 * A connection of amqplib that the application made; the transport opens channels of its own on it and leaves it open at
 * the end. One that ended is not had anew but from a factory.
 */
export type RabbitMqConnectionOption = AmqpConnection | InjectionToken | RabbitMqConnectionFactory;

/** Gives connections of amqplib. What is no connection is refused at the connect (`INVALID_OPTIONS`). */
export interface RabbitMqConnectionFactory {
  /** Tokens of what `useFactory` is called with. Default: none. */
  inject?: readonly InjectionToken[];
  /** Called for the first connection, and again when what it gave does not answer any more; with `own`, at each connect. */
  useFactory: (...dependencies: never[]) => AmqpConnection | Promise<AmqpConnection>;
  /**
   * True: each call makes a connection for this transport alone, which closes it at the end and when it gives it up.
   * Default false: it may be in use elsewhere, stays open, and whoever made it closes it.
   */
  own?: boolean;
}

export interface RabbitMqOptions {
  /** One of `url`, `urls` and `connection`. */
  url?: RabbitMqUrl | RabbitMqUrlProvider;
  /** The nodes of a cluster, tried one after the other. */
  urls?: readonly (RabbitMqUrl | RabbitMqUrlProvider)[];
  /** A connection, its DI token, or a factory, which is called again when a connection has ended. Stays open, but for `own`. */
  connection?: RabbitMqConnectionOption;
  /** amqplib's second argument: TLS, `clientProperties`, `credentials` … */
  socket?: object;
  /** Default: the default exchange, where the routing key is a queue's name. */
  exchange?: string;
  /** Default: the message's topic. A string of at most 255 bytes; a throw or anything else is a failed attempt of the message. */
  routingKey?: (message: OutboxMessage) => string;
  /** A message that no queue takes is a failure instead of being dropped by the broker. Default true. */
  mandatory?: boolean;
  /** Messages survive a restart of the broker, in durable queues. Default true. */
  persistent?: boolean;
  /** Asserted at every connect. Default: nothing is. */
  topology?: RabbitMqTopology | { bivarianceHack(channel: AmqpChannel): Promise<void> }['bivarianceHack'];
  /**
   * Whether a relay that is connected asks, before any message, if the exchange and the queues that options and event classes name
   * are there. Default true. Off where a shared event class names what this process never sends to.
   */
  checkDestinations?: boolean;
  /** For a confirm, at most; the relay's publish timeout holds too. Default: that one alone. */
  confirmTimeout?: Duration;
  /** For a connection to one server to be open. Default 5 s. */
  connectTimeout?: Duration;
  /** Default 10 s; a dead peer is noticed after two to three of them. */
  heartbeat?: Duration;
  /** Messages that wait for their confirm, at most. Default 5000. */
  maxUnconfirmed?: number;
  /** Sends several messages of a key without waiting for each confirm; see docs/transports/rabbitmq.md. Default false. */
  pipelineKeys?: boolean;
  /** AMQP `appId` of every message. */
  appId?: string;
  /** Added to every message; a message's own header of that name wins. */
  headers?: Readonly<Record<string, HeaderValue>>;
  cloudEvents?: CloudEventsOptions;
  /** Default 16 MiB, what RabbitMQ 4 takes unless it is told otherwise. */
  maxPayloadBytes?: number;
}

/** Checked; milliseconds. */
export interface RabbitMqSettings extends Omit<RabbitMqOptions, 'url' | 'urls' | 'connection'> {
  readonly servers: readonly (RabbitMqUrl | RabbitMqUrlProvider)[];
  readonly exchange: string;
  readonly mandatory: boolean;
  readonly persistent: boolean;
  readonly confirmTimeout: number;
  readonly connectTimeout: number;
  readonly heartbeat: number;
  readonly maxUnconfirmed: number;
  readonly pipelineKeys: boolean;
  readonly maxPayloadBytes: number;
}

/** The value is not shown: it may hold a password. */
export function isServer(server: unknown): server is RabbitMqUrl {
  if (typeof server === 'object' && server !== null) return true;
  return typeof server === 'string' && !isMisread(server) && /^amqps?:/.test(server);
}
