import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion, ExpectedMessages } from '../transport.js';
import { cutClient, type MqttJs, type ServerProperties } from './client.js';
import { newClientId, openClient } from './connect.js';
import { mqttOptionsOf, type MqttSettings } from './options.js';

/** Asks each broker by a connection of its own, which says what the broker takes. */
export async function diagnose(
  mqtt: MqttJs,
  settings: MqttSettings,
  { transport, expected }: BrokerQuestion,
  signal: AbortSignal,
): Promise<Finding[]> {
  const [url] = settings.url;
  const { client, server } = await openClient(mqtt, settings, url!, newClientId(settings), signal);
  // Of a clean session without a message nothing is left.
  cutClient(client);
  return judgeServer(transport, settings, server, expected);
}

/** Pure. */
function judgeServer(
  transport: string,
  { maxPayloadBytes, mandatory, topicPrefix }: MqttSettings,
  server: ServerProperties,
  expected: readonly ExpectedMessages[],
): Finding[] {
  const { receiveMaximum = 65_535, maximumPacketSize = null, retainAvailable = true } = server;
  const evidence = { transport, receiveMaximum, maximumPacketSizeBytes: maximumPacketSize, retainAvailable };
  const retained = expected
    .filter(({ options }) => options !== null && mqttOptionsOf(options)?.retain === true)
    .map(({ topic }) => topicPrefix + topic);
  return [
    isOk('broker', `The MQTT broker answers to '${transport}', by MQTT 5.0 and with QoS 1.`, evidence),
    ...(receiveMaximum < FEW ? [narrow(evidence)] : []),
    ...(maximumPacketSize !== null && maximumPacketSize < maxPayloadBytes
      ? [tight(evidence, maximumPacketSize, maxPayloadBytes)]
      : []),
    ...(retainAvailable || retained.length === 0 ? [] : [forgetful(evidence, retained)]),
    unknowable(transport, mandatory),
  ];
}

const narrow = (evidence: Finding['evidence']): Finding =>
  found(
    'receive-maximum',
    'note',
    { text: `The MQTT broker takes ${String(evidence['receiveMaximum'])} unanswered messages at a time.`, evidence },
    'At most so many messages are published in the time of one answer.',
    'Raise it; in Mosquitto: max_inflight_messages 1000.',
  );

const tight = (evidence: Finding['evidence'], broker: number, own: number): Finding =>
  found(
    'packet-size',
    'warning',
    { text: `The MQTT broker takes packets of ${broker} bytes, and enqueue payloads of ${own}.`, evidence },
    'A message in between is enqueued, and becomes a dead letter.',
    `Set maxPayloadBytes of mqtt() to less than ${broker}, with room for headers, or raise the broker's limit.`,
  );

const forgetful = (evidence: Finding['evidence'], topics: readonly string[]): Finding =>
  found(
    'retain',
    'error',
    {
      text: `The MQTT broker keeps no retained messages, and event classes retain theirs.`,
      evidence: { ...evidence, topics: topics.slice(0, NAMED).join(', ') },
    },
    'These messages become dead letters.',
    'Let the broker keep them (Mosquitto: retain_available true), or leave options.mqtt.retain out.',
  );

/** MQTT has no question about subscribers, rights, queues or disks. */
const unknowable = (transport: string, mandatory: boolean): Finding =>
  found(
    'not-knowable',
    'note',
    {
      text: 'MQTT does not tell who subscribes, what a login may publish, and whether the broker keeps messages on disk.',
      evidence: { transport, mandatory },
    },
    'A broker that keeps messages in memory loses in a restart what was published.',
    'Let the broker write to disk (Mosquitto: persistence true), and consumers subscribe with a session that is kept.',
  );

/** Unanswered messages. */
const FEW = 100;
/** Topics that are named. */
const NAMED = 20;
