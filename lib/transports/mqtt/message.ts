import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import { createEnvelope } from '../envelope.js';
import type { MqttPublish } from './client.js';
import { headersProblem, optionsProblem, textProblem, topicProblem } from './limits.js';
import { mqttOptionsOf, type MqttSettings } from './options.js';

/** Throws when MQTT cannot carry the message. */
export type MqttEncoder = (message: OutboxMessage) => MqttPublish;

export function createEncoder(settings: Pick<MqttSettings, 'topicPrefix' | 'headers' | 'cloudEvents'>): MqttEncoder {
  const { topicPrefix, headers, cloudEvents } = settings;
  const envelope = createEnvelope({ headers, cloudEvents, cloudEventsPrefix: '', omitContentType: true });
  return (message) => {
    const { contentType, key, type, body } = message;
    const topic = topicPrefix + message.topic;
    const own = message.optionsJson === null ? undefined : mqttOptionsOf(message.options);
    const userProperties = envelope(message);
    if (key !== null && cloudEvents === undefined) userProperties['key'] = key;
    if (body === null) userProperties['tombstone'] = 'true';
    // Rows of other programs were checked by nobody.
    refuseIf(
      topicProblem(topic) ??
        textProblem('type', type) ??
        textProblem('contentType', contentType) ??
        (key === null ? undefined : textProblem('the key', key)) ??
        (message.headersJson === null ? undefined : headersProblem(userProperties)) ??
        optionsProblem(own),
    );
    const { retain = false, messageExpiryInterval, responseTopic, correlationData } = own ?? {};
    return {
      topic,
      payload: body ?? '',
      retain,
      properties: {
        contentType,
        userProperties,
        ...(messageExpiryInterval !== undefined && { messageExpiryInterval }),
        ...(responseTopic !== undefined && { responseTopic }),
        ...(correlationData !== undefined && { correlationData }),
      },
    };
  };
}

function refuseIf(problem: string | undefined): void {
  if (problem === undefined) return;
  throw new OutboxMessageError('INVALID_MESSAGE', `MQTT cannot carry the message: ${problem}.`);
}

const textSize = (text: string): number => 2 + Buffer.byteLength(text);
const countSize = (count: number): number => (count < 128 ? 1 : count < 16_384 ? 2 : count < 2_097_152 ? 3 : 4);

/** Bytes of the whole packet, as a broker's Maximum Packet Size counts them. */
export function packetSize({ topic, payload, properties }: MqttPublish): number {
  const { contentType, userProperties, messageExpiryInterval, responseTopic, correlationData } = properties;
  let size = 1 + textSize(contentType);
  for (const name of Object.keys(userProperties))
    for (const value of [userProperties[name]].flat()) size += 1 + textSize(name) + textSize(value as string);
  if (messageExpiryInterval !== undefined) size += 5;
  if (responseTopic !== undefined) size += 1 + textSize(responseTopic);
  if (correlationData !== undefined) size += 1 + textSize(correlationData);
  const rest = textSize(topic) + 2 + countSize(size) + size + Buffer.byteLength(payload);
  return 1 + countSize(rest) + rest;
}
