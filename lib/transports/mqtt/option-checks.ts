import { refuseOptions, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import {
  anObject,
  duration,
  fixedHeaders,
  INVALID,
  integer,
  needed,
  objectOf,
  text,
  trueOrFalse,
  type Rule,
} from '../../options/rules.js';
import { ENCODED, isMisread } from '../broker-address.js';
import { headersProblem, reservedNames, textProblem, topicProblem } from './limits.js';
import type { MqttOptions, MqttSettings } from './options.js';

/** The value is not shown: it may hold a password. */
const someUrls: Rule = {
  allowed: `mqtt://host or mqtts://host without a path, a function that gives one, or an array of these; ${ENCODED}`,
  noText: true,
  parse(value) {
    const urls = [value].flat();
    const isUrl = (url: unknown): boolean => typeof url === 'function' || isMqttUrl(url);
    return urls.length > 0 && urls.every(isUrl) ? urls : INVALID;
  },
};

export function isMqttUrl(url: unknown): url is string {
  if (typeof url !== 'string' || isMisread(url)) return false;
  const { protocol, hostname, pathname, search } = new URL(url);
  return /^mqtts?:$/.test(protocol) && hostname !== '' && /^\/?$/.test(pathname) && search === '';
}

/** Brokers must take client ids of 23 such characters, and may take others. */
const CLIENT_ID = /^[\w./:-]{0,100}$/;

const TABLE: FactoryTable<MqttOptions> = {
  factory: 'mqtt',
  needed: 'url',
  rows: {
    url: row(needed(someUrls)),
    topicPrefix: row(text(/^/, 'a string'), ''),
    mandatory: row(trueOrFalse, true),
    tls: row(anObject),
    clientIdPrefix: row(text(CLIENT_ID, 'at most 100 letters, digits, and . _ - / :'), 'outbox-'),
    maxInFlight: row(integer(1, 65_535), 5_000),
    connectTimeout: row(duration('1ms', '10m'), 5_000),
    // 0 would turn it off: then a peer that is gone without a word is found by timeouts only.
    keepAlive: row(duration('1s', '18h'), 10_000),
    headers: row(fixedHeaders),
    cloudEvents: row(objectOf({ source: needed(text(/./, 'a string, not empty')) }, 'an object with source')),
    maxPayloadBytes: row(integer(1, 268_000_000), 1_000_000),
  },
  // Two relays with one client id would end each other's connection.
  inner: {
    clientId: 'clientIdPrefix',
    username: 'url',
    password: 'url',
    ca: 'tls.ca',
    cert: 'tls.cert',
    key: 'tls.key',
  },
  across: ({ url, tls }) =>
    tls !== undefined && [url].flat().some((one) => typeof one === 'string' && one.startsWith('mqtt:'))
      ? ['tls needs a url that begins with mqtts://']
      : [],
};

/** Throws over all that is wrong. What a message may not bring, the transport must not add to all of them. */
export function resolveMqttOptions(options: MqttOptions): MqttSettings {
  const settings = resolveFactory(TABLE, options) as MqttSettings;
  const { topicPrefix, headers = {}, cloudEvents } = settings;
  const problems = [
    topicProblem(`${topicPrefix}x`)?.replace('the topic', 'topicPrefix'),
    headersProblem(headers, reservedNames(cloudEvents))?.replace(/^/, 'headers: '),
    cloudEvents && textProblem('cloudEvents.source', cloudEvents.source),
  ];
  refuseOptions(
    TABLE.factory,
    problems.filter((problem) => problem !== undefined),
  );
  return settings;
}
