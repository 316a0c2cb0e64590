import type { InjectionToken } from '@nestjs/common';
import type { Duration, HeaderValue, OutboxMessage } from '../../outbox-message.js';
import { isMisread } from '../broker-address.js';
import type { CloudEventsOptions } from '../envelope.js';
import type { AmqpChannel, AmqpConnection, RabbitMqEncoder } from './client.js';

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
 * A connection of amqplib that the application made. The transport opens channels of its own on it and leaves it open at
 * the end. After such a connection has ended, only a factory can give another one.
 */
export type RabbitMqConnectionOption = AmqpConnection | InjectionToken | RabbitMqConnectionFactory;

/** Gives connections of amqplib. Anything else is refused at the connect (`INVALID_OPTIONS`). */
export interface RabbitMqConnectionFactory {
  /** Lists the DI tokens of the arguments of `useFactory`. Default: none. */
  inject?: readonly InjectionToken[];
  /** Is called for the first connection, and again when that one no longer answers; with `own`, at each connect. */
  useFactory: (...dependencies: never[]) => AmqpConnection | Promise<AmqpConnection>;
  /**
   * True: each call makes a connection for this transport alone, which closes it at the end and when it gives it up.
   * False: the connection may be in use elsewhere and stays open; its maker closes it. Default: false.
   */
  own?: boolean;
}

export interface RabbitMqOptions {
  /** Says where the broker is, with user and password. Give exactly one of `url`, `urls` and `connection`. */
  url?: RabbitMqUrl | RabbitMqUrlProvider;
  /** Lists the nodes of a cluster, which are tried one after the other. */
  urls?: readonly (RabbitMqUrl | RabbitMqUrlProvider)[];
  /**
   * Uses a connection of the application: itself, its DI token, or a factory, which is called again when a connection has ended.
   * The transport leaves it open, except for one of a factory with `own: true`.
   */
  connection?: RabbitMqConnectionOption;
  /** Is the second argument of amqplib's `connect`: TLS, `clientProperties`, `credentials` and others. */
  socket?: object;
  /** Names the exchange that messages are sent to. Default: the default exchange, where the routing key is a queue's name. */
  exchange?: string;
  /**
   * Returns the routing key of a message, a string of at most 255 bytes. When it throws or returns anything else, the attempt
   * of the message failed. Default: the message's topic.
   */
  routingKey?: (message: OutboxMessage) => string;
  /** Makes a message that no queue takes a failure; otherwise the broker drops it. Default: true. */
  mandatory?: boolean;
  /** Makes messages in durable queues survive a restart of the broker. Default: true. */
  persistent?: boolean;
  /** Declares exchanges, queues and bindings at every connect. Default: none. */
  topology?: RabbitMqTopology | { bivarianceHack(channel: AmqpChannel): Promise<void> }['bivarianceHack'];
  /**
   * Makes a relay that has connected ask, before any message, whether the exchange and the queues exist that options and event
   * classes name. Turn it off where a shared event class names a destination that this process never sends to. Default: true.
   */
  checkDestinations?: boolean;
  /** Limits the wait for a confirm, within the relay's `publishTimeout`. Default: no limit but that one. */
  confirmTimeout?: Duration;
  /** Limits the time in which a connection to one server must open. Default: 5 s. */
  connectTimeout?: Duration;
  /** Sets the interval of AMQP heartbeats. A dead broker is noticed after two to three of them. Default: 10 s. */
  heartbeat?: Duration;
  /** Limits the messages that wait for their confirm. Default: 5000. */
  maxUnconfirmed?: number;
  /** Sends several messages of a key without waiting for each confirm; see docs/transports/rabbitmq.md. Default: false. */
  pipelineKeys?: boolean;
  /** Sets the AMQP property `appId` of every message. Default: none. */
  appId?: string;
  /** Adds headers to every message. A message's own header of the same name wins. Default: none. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** Writes headers of CloudEvents 1.0 in binary mode, with this `source`. Default: none. */
  cloudEvents?: CloudEventsOptions;
  /** Limits the payload of a message; `enqueue` refuses a larger one. Default: 16 MiB, RabbitMQ 4's own default. */
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
  /** Absent: our own. */
  readonly encode?: RabbitMqEncoder | undefined;
}

/** The value is not shown: it may hold a password. */
export function isServer(server: unknown): server is RabbitMqUrl {
  if (typeof server === 'object' && server !== null) return true;
  return typeof server === 'string' && !isMisread(server) && /^amqps?:/.test(server);
}
