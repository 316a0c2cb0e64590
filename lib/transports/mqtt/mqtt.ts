import type { OutboxMessage } from '../../outbox-message.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { markFactory } from '../../options/factory-options.js';
import { brokerAddress } from '../broker-address.js';
import type { BrokerClient } from '../session/session.js';
import { SessionTransport } from '../session/transport.js';
import type { OutboxTransport, TransportLimits } from '../transport.js';
import { loadMqtt, type MqttJs } from './client.js';
import { newClientId, openClient } from './connect.js';
import { diagnose } from './diagnose.js';
import { destinationName, judge } from './errors.js';
import { mqttLimits } from './limits.js';
import { createEncoder } from './message.js';
import { resolveMqttOptions } from './option-checks.js';
import type { MqttOptions, MqttSettings } from './options.js';
import { MqttSession } from './session.js';

/** Publishes to a broker of MQTT 5.0 with QoS 1 through mqtt.js, which is loaded when a relay starts. */
export function mqtt(options: MqttOptions): TransportDefinition {
  const settings = resolveMqttOptions(options);
  const limits = mqttLimits(settings);
  const broker = brokerAddress(settings.url);
  return {
    kind: 'mqtt',
    ...(broker === undefined ? {} : { broker }),
    receipt: 'broker',
    limits,
    warnings: settings.mandatory ? [] : [MANDATORY_WARNING],
    create: async (): Promise<OutboxTransport> =>
      new SessionTransport(brokerClient(await loadMqtt(), settings, limits)),
  };
}
markFactory(mqtt, 'mqtt({ … })');

const MANDATORY_WARNING =
  'mqtt({ mandatory: false }): a message that no subscriber gets is lost, and counts as published. Leave mandatory out: it is a failure then, tried again.';

function brokerClient(mqttJs: MqttJs, settings: MqttSettings, limits: TransportLimits): BrokerClient {
  const { url: urls, topicPrefix, maxInFlight, mandatory } = settings;
  const encode = createEncoder(settings);
  // The same at each connect: the broker ends what is left of the connection before.
  const clientId = newClientId(settings);
  const topicOf = ({ topic }: OutboxMessage): string => topicPrefix + topic;
  let next = 0;
  return {
    name: 'MQTT',
    limits,
    async open(signal, events) {
      // The one that was used, or asked in vain, may be what failed.
      const url = urls[next++ % urls.length]!;
      const { client, flights, server } = await openClient(mqttJs, settings, url, clientId, signal);
      return new MqttSession(client, flights, server, { encode, events, maxInFlight, mandatory });
    },
    judge: (error, message) => judge(error, message && topicOf(message)),
    destinationOf: (message) => destinationName(topicOf(message)),
    diagnose: (question, signal) => diagnose(mqttJs, settings, question, signal),
  };
}
