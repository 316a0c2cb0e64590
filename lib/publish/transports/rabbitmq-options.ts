import type { InjectionToken } from '@nestjs/common';
import { milliseconds } from '../../duration.js';
import type { Duration, HeaderValue, OutboxMessage } from '../../message.js';
import type { CloudEventsOptions } from './envelope.js';
import { refuseNoOptions, refuseOptions, unknownNames } from './option-names.js';
import type { AmqpChannel, AmqpConnection } from './rabbitmq-client.js';
import { addedProblems, valueProblems } from './rabbitmq-option-checks.js';

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

const NAMES: readonly (keyof RabbitMqOptions)[] = [
  'url',
  'urls',
  'connection',
  'socket',
  'exchange',
  'routingKey',
  'mandatory',
  'persistent',
  'topology',
  'checkDestinations',
  'confirmTimeout',
  'connectTimeout',
  'heartbeat',
  'maxUnconfirmed',
  'pipelineKeys',
  'appId',
  'headers',
  'cloudEvents',
  'maxPayloadBytes',
];

/** Throws over all that is wrong. */
export function resolveRabbitMqOptions(options: RabbitMqOptions): RabbitMqSettings {
  refuseNoOptions('rabbitmq', options, 'url');
  const { url, urls, connection: _connection, ...rest } = options;
  const servers = urls ?? (url === undefined ? [] : [url]);
  const problems = [...unknownNames(options, NAMES), ...serverProblems(options, servers), ...valueProblems(options)];
  const check = (problem: string | undefined): void => {
    if (problem !== undefined) problems.push(problem);
  };
  const settings = {
    ...rest,
    servers,
    exchange: rest.exchange ?? '',
    mandatory: rest.mandatory ?? true,
    persistent: rest.persistent ?? true,
    confirmTimeout: duration('confirmTimeout', rest.confirmTimeout, Infinity, 1, check),
    connectTimeout: duration('connectTimeout', rest.connectTimeout, 5_000, 1, check),
    // AMQP counts heartbeats in whole seconds, and 0 turns them off: then a black-holed peer is found by timeouts only.
    heartbeat: duration('heartbeat', rest.heartbeat, 10_000, 1_000, check),
    maxUnconfirmed: count('maxUnconfirmed', rest.maxUnconfirmed ?? 5_000, check),
    pipelineKeys: rest.pipelineKeys ?? false,
    maxPayloadBytes: count('maxPayloadBytes', rest.maxPayloadBytes ?? 16 * 1024 * 1024, check),
  };
  refuseOptions('rabbitmq', problems);
  refuseOptions('rabbitmq', addedProblems(settings));
  return settings;
}

type Check = (problem: string | undefined) => void;

function serverProblems({ url, urls, connection }: RabbitMqOptions, servers: RabbitMqSettings['servers']): string[] {
  if ([url, urls, connection].filter((given) => given !== undefined).length !== 1) {
    return ['url or urls or connection must be given, one of them'];
  }
  if (!Array.isArray(servers) || (servers.length === 0 && connection === undefined)) return ['urls must not be empty'];
  return servers.every((server) => typeof server === 'function' || isServer(server))
    ? []
    : ['url must be amqp://host or amqps://host, an object, or a function that gives one'];
}

/** The value is not shown: it may hold a password. */
export function isServer(server: unknown): server is RabbitMqUrl {
  if (typeof server === 'object' && server !== null) return true;
  return typeof server === 'string' && URL.canParse(server) && /^amqps?:/.test(server);
}
function duration(name: string, value: Duration | undefined, otherwise: number, min: number, check: Check): number {
  if (value === undefined) return otherwise;
  const ms = milliseconds(value) ?? NaN;
  check(ms >= min && ms < 2 ** 31 ? undefined : `${name} must be a duration of at least ${min} ms`);
  return ms;
}
function count(name: string, value: number, check: Check): number {
  check(Number.isSafeInteger(value) && value > 0 ? undefined : `${name} must be a positive integer`);
  return value;
}
