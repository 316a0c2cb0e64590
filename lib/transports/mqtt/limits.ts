import type { HeaderValue, MessageHeaders } from '../../outbox-message.js';
import { noObject, unknownOption } from '../../options/option-names.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';
import { mqttOptionsOf, type MqttMessageOptions, type MqttSettings } from './options.js';

/** What a text of MQTT holds at most: its length has two bytes. */
const TEXT = 65_535;
/** A broker may close the connection over these (MQTT 5.0, 1.5.4), and Mosquitto does: neighbours would pay for it. */
const UNFIT = /[\p{Cc}\p{Noncharacter_Code_Point}\p{Surrogate}]/u;

export function textProblem(what: string, given: unknown): string | undefined {
  if (typeof given !== 'string') return `${what} must be a string`;
  if (given.length * 3 > TEXT && Buffer.byteLength(given) > TEXT) return `${what} is longer than ${TEXT} bytes`;
  return UNFIT.test(given) ? `${what} holds a control character or another one that MQTT does not carry` : undefined;
}

/** @param topic with its prefix */
export function topicProblem(topic: string, what = 'the topic'): string | undefined {
  if (/[+#]/.test(topic)) return `${what} holds + or #, which are wildcards of subscribers`;
  if (topic === '') return `${what} is empty`;
  return topic.startsWith('$') ? `${what} begins with $, as topics of the broker itself do` : textProblem(what, topic);
}

/** Names that this package writes; `__proto__` would be lost by consumers in JavaScript. */
export function reservedNames(cloudEvents: object | undefined): readonly string[] {
  const own = cloudEvents === undefined ? ['version', 'key'] : ['specversion', 'source', 'subject', 'dataversion'];
  return ['id', 'type', 'time', 'tombstone', '__proto__', ...own];
}

export function headersProblem(headers: MessageHeaders, reserved: readonly string[] = []): string | undefined {
  for (const name of Object.keys(headers)) {
    if (reserved.includes(name)) return `the header name ${name} is reserved`;
    const value = headers[name] as HeaderValue;
    const problem = textProblem('a header name', name) ?? valueProblem(Array.isArray(value) ? value : [value]);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function valueProblem(values: readonly unknown[]): string | undefined {
  for (const value of values) {
    if (typeof value !== 'string') return 'a header holds bytes, and user properties of MQTT are text';
    const problem = textProblem('a header', value);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** What mqtt.js, or the broker, would end the connection for, at the cost of the neighbours. */
export function optionsProblem(options: MqttMessageOptions | undefined): string | undefined {
  if (options === undefined) return undefined;
  // Rows of other programs hold what they like.
  if (typeof options !== 'object' || options === null) return 'options.mqtt must be an object';
  const { retain, messageExpiryInterval: expiry, responseTopic, correlationData } = options;
  if (retain !== undefined && typeof retain !== 'boolean') return 'retain must be true or false';
  if (expiry !== undefined && !(Number.isInteger(expiry) && expiry >= 0 && expiry < 2 ** 32))
    return 'messageExpiryInterval must be whole seconds below 2^32';
  if (
    correlationData !== undefined &&
    (typeof correlationData !== 'string' || Buffer.byteLength(correlationData) > TEXT)
  )
    return `correlationData must be a string of at most ${TEXT} bytes`;
  if (responseTopic === undefined) return undefined;
  return typeof responseTopic === 'string'
    ? topicProblem(responseTopic, 'responseTopic')
    : 'responseTopic must be a string';
}

const OPTIONS = ['retain', 'messageExpiryInterval', 'responseTopic', 'correlationData'];

export function mqttLimits({ topicPrefix, maxPayloadBytes, cloudEvents }: MqttSettings): TransportLimits {
  const reserved = reservedNames(cloudEvents);
  return {
    payloadBytes: maxPayloadBytes,
    headerBytes: 32 * 1024,
    tombstones: true,
    checkTopic: (topic) => topicProblem(topicPrefix + topic),
    check: ({ key, type, contentType, headers, options }: CheckedMessage) =>
      (key === null ? undefined : textProblem('the key', key)) ??
      textProblem('type', type) ??
      textProblem('contentType', contentType) ??
      headersProblem(headers, reserved) ??
      noObject('options.mqtt', options['mqtt']) ??
      optionsProblem(mqttOptionsOf(options)) ??
      unknownOption('options.mqtt', mqttOptionsOf(options), OPTIONS),
  };
}
