import { milliseconds } from '../../time/duration.js';
import { refuseOptions, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import {
  aFunction,
  anObject,
  anything,
  fixedHeaders,
  INVALID,
  listOf,
  needed,
  objectOf,
  orFunction,
  orNullFor,
  trueOrFalse,
  type Rule,
} from '../../options/rules.js';
import { isShortText } from '../amqp/limits.js';
import { ENCODED } from '../broker-address.js';
import { rabbitMqLimits } from './limits.js';
import { isServer, type RabbitMqOptions, type RabbitMqSettings } from './options.js';

const shortText: Rule = {
  allowed: 'a string of at most 255 bytes',
  parse: (value) => (isShortText(value) ? value : INVALID),
};

function durationFrom(min: number): Rule {
  return {
    allowed: `a duration of at least ${min} ms`,
    parse(value) {
      const ms = milliseconds(value) ?? NaN;
      return ms >= min && ms < 2 ** 31 ? ms : INVALID;
    },
  };
}

const count: Rule = {
  allowed: 'a positive integer',
  parse: (value) => (Number.isSafeInteger(value) && (value as number) > 0 ? value : INVALID),
};

/** `null` counts as not given. */
function laxRow(rule: Rule, otherwise: unknown): ReturnType<typeof row> {
  return row(orNullFor(rule, otherwise), otherwise);
}

const cloudEvents = objectOf(
  {
    source: needed({
      allowed: 'a string, not empty',
      parse: (value) => (typeof value === 'string' && value !== '' ? value : INVALID),
    }),
  },
  'an object with source',
);

const topology = objectOf({
  assertExchange: listOf(objectOf({ name: needed(shortText), type: needed(shortText), options: anObject })),
  assertQueue: listOf(objectOf({ name: needed(shortText), options: anObject })),
  bind: listOf(
    objectOf({
      queue: needed(shortText),
      exchange: needed(shortText),
      routingKey: orNullFor(shortText, ''),
      arguments: anObject,
    }),
  ),
});

const TABLE: FactoryTable<RabbitMqOptions> = {
  factory: 'rabbitmq',
  needed: 'url',
  rows: {
    url: row(anything),
    urls: row(anything),
    connection: row(anything),
    socket: row(anything),
    exchange: laxRow(shortText, ''),
    routingKey: row(aFunction),
    mandatory: laxRow(anything, true),
    persistent: laxRow(anything, true),
    topology: row(orFunction(topology, 'an object or a function')),
    checkDestinations: row(trueOrFalse),
    confirmTimeout: row(durationFrom(1), Infinity),
    connectTimeout: row(durationFrom(1), 5_000),
    // AMQP counts heartbeats in whole seconds, and 0 turns them off: then a black-holed peer is found by timeouts only.
    heartbeat: row(durationFrom(1_000), 10_000),
    maxUnconfirmed: laxRow(count, 5_000),
    pipelineKeys: laxRow(anything, false),
    appId: row(shortText),
    headers: row(fixedHeaders),
    cloudEvents: row(cloudEvents),
    maxPayloadBytes: laxRow(count, 16 * 1024 * 1024),
  },
  across: (options) => serverProblems(options, serversOf(options)),
};

/** Throws over all that is wrong. */
export function resolveRabbitMqOptions(options: RabbitMqOptions): RabbitMqSettings {
  const {
    url: _url,
    urls: _urls,
    connection: _connection,
    ...rest
  } = resolveFactory(TABLE, options) as RabbitMqOptions;
  const settings = { ...rest, servers: serversOf(options) } as RabbitMqSettings;
  refuseOptions(TABLE.factory, addedProblems(settings));
  return settings;
}

function serversOf({ url, urls }: RabbitMqOptions): RabbitMqSettings['servers'] {
  return urls ?? (url === undefined ? [] : [url]);
}

function serverProblems({ url, urls, connection }: RabbitMqOptions, servers: RabbitMqSettings['servers']): string[] {
  if ([url, urls, connection].filter((given) => given !== undefined).length !== 1) {
    return ['url or urls or connection must be given, one of them'];
  }
  if (!Array.isArray(servers) || (servers.length === 0 && connection === undefined)) return ['urls must not be empty'];
  return servers.every((server) => typeof server === 'function' || isServer(server))
    ? []
    : [`url must be amqp://host or amqps://host, an object, or a function that gives one; ${ENCODED}`];
}

/** What a message may not bring, the transport must not add to all of them. */
function addedProblems(settings: RabbitMqSettings): string[] {
  const { headers = {}, ...others } = settings;
  const message = { topic: '', key: null, type: '', contentType: '', payloadBytes: 0, headers, options: {} };
  const problem = rabbitMqLimits(others).check?.(message);
  return problem === undefined ? [] : [`with these headers and cloudEvents no message can be carried: ${problem}`];
}
