import { milliseconds } from '../../time/duration.js';
import type { Duration } from '../../outbox-message.js';
import {
  headerProblems,
  refuseNoOptions,
  refuseOptions,
  switchProblems,
  unknownNames,
} from '../../options/option-names.js';
import { rabbitMqLimits } from './limits.js';
import { isServer, type RabbitMqOptions, type RabbitMqSettings, type RabbitMqTopology } from './options.js';

/** What each message or each connect would fail of, found at the start. */
export function valueProblems(options: RabbitMqOptions): string[] {
  const { exchange, appId, routingKey, headers, cloudEvents, topology } = options;
  const problems: string[] = [];
  if (!isShortText(exchange ?? '')) problems.push(`exchange ${SHORT_TEXT}`);
  if (appId !== undefined && !isShortText(appId)) problems.push(`appId ${SHORT_TEXT}`);
  if (routingKey !== undefined && typeof routingKey !== 'function') problems.push('routingKey must be a function');
  problems.push(...switchProblems(options), ...headerProblems(headers));
  if (cloudEvents !== undefined) problems.push(...cloudEventsProblems(cloudEvents));
  if (topology !== undefined && typeof topology !== 'function') problems.push(...topologyProblems(topology));
  return problems;
}

/** What a message may not bring, the transport must not add to all of them. */
export function addedProblems(settings: RabbitMqSettings): string[] {
  const { headers = {}, ...others } = settings;
  const message = { topic: '', key: null, type: '', contentType: '', payloadBytes: 0, headers, options: {} };
  const problem = rabbitMqLimits(others).check?.(message);
  return problem === undefined ? [] : [`with these headers and cloudEvents no message can be carried: ${problem}`];
}

const SHORT_TEXT = 'must be a string of at most 255 bytes';

/** An AMQP short string. */
export function isShortText(text: unknown): text is string {
  return typeof text === 'string' && (text.length * 3 <= 255 || Buffer.byteLength(text) <= 255);
}

function cloudEventsProblems(cloudEvents: unknown): string[] {
  if (!isRecord(cloudEvents)) return ['cloudEvents must be an object with source'];
  const problems = unknownNames(cloudEvents, ['source']).map((problem) => `cloudEvents.${problem}`);
  const { source } = cloudEvents;
  if (typeof source !== 'string' || source === '') problems.push('cloudEvents.source must be a string, not empty');
  return problems;
}

/** The fields of an entry of each list; those that may be absent stand in `optional`. */
const LISTS: Readonly<Record<keyof RabbitMqTopology, { needed: readonly string[]; optional: readonly string[] }>> = {
  assertExchange: { needed: ['name', 'type'], optional: ['options'] },
  assertQueue: { needed: ['name'], optional: ['options'] },
  bind: { needed: ['queue', 'exchange'], optional: ['routingKey', 'arguments'] },
};

function topologyProblems(topology: unknown): string[] {
  if (!isRecord(topology)) return ['topology must be an object or a function'];
  const problems = unknownNames(topology, Object.keys(LISTS)).map((problem) => `topology.${problem}`);
  for (const [name, fields] of Object.entries(LISTS)) {
    const [list, path] = [topology[name], `topology.${name}`];
    if (list === undefined) continue;
    if (Array.isArray(list))
      problems.push(...list.flatMap((entry, n) => entryProblems(entry, `${path}[${n}]`, fields)));
    else problems.push(`${path} must be an array`);
  }
  return problems;
}

function entryProblems(entry: unknown, path: string, { needed, optional }: (typeof LISTS)['bind']): string[] {
  if (!isRecord(entry)) return [`${path} must be an object`];
  const problems = unknownNames(entry, [...needed, ...optional]).map((problem) => `${path}.${problem}`);
  for (const name of needed) if (!isShortText(entry[name])) problems.push(`${path}.${name} ${SHORT_TEXT}`);
  for (const name of optional) {
    const value = entry[name];
    if (name === 'routingKey' ? !isShortText(value ?? '') : typeof (value ?? {}) !== 'object')
      problems.push(`${path}.${name} ${name === 'routingKey' ? SHORT_TEXT : 'must be an object'}`);
  }
  return problems;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
