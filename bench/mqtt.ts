import { once, type EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, connectAsync, type MqttClient } from 'mqtt';
import type { MqttPublish } from '../lib/transports/mqtt/client.js';
import { mqtt } from '../lib/transports/mqtt/mqtt.js';
import { createEncoder } from '../lib/transports/mqtt/message.js';
import { contractMessage } from '../lib/testing/transport-contract/contract-message.js';
import { MqttNode } from '../test/support/mqtt-node.js';
import { argumentsOf, BATCH, benchBroker, inFlight, type BrokerUnderTest } from './support/broker-drain.js';
import { timed } from './support/measure.js';
import { PAYLOAD } from './support/rows.js';
import type { Closing } from './support/run.js';

/**
 * A backlog in PostgreSQL published to Mosquitto, answered and settled, over 10,000, 100 and 10 keys, against mqtt.js alone: the
 * same bytes from memory, QoS 1, Nagle's algorithm off, 2 × 500 and 4 × 500 in flight, the better of both. The messages wait in
 * the session of a subscriber that is away, and are counted when it comes.
 *   npm run bench -- mqtt [messages=60000] [repeats=5]
 * Starts a Mosquitto of its own, as the Receive Maximum of one with its own settings is 20.
 */
const size = argumentsOf(60_000);
const TOPIC = 'bench/orders';

/** Exactly what the transport hands to mqtt.js, made before the clock runs. */
function encodeAll(keys: number): MqttPublish[] {
  const encode = createEncoder({ topicPrefix: '' });
  return Array.from({ length: size.messages }, (_, n) =>
    encode(contractMessage({ topic: TOPIC, key: `k${n % keys}`, type: 'order.placed', payload: PAYLOAD })),
  );
}

const connectPublisher = (url: string): Promise<MqttClient> =>
  connectAsync(url, { protocolVersion: 5, reconnectPeriod: 0, queueQoSZero: false });

/** The session of a subscriber; the broker keeps for it what comes while it is away. */
async function visit(url: string, heard: () => void = () => undefined): Promise<MqttClient> {
  const properties = { sessionExpiryInterval: 3_600 };
  const client = connect(url, { protocolVersion: 5, reconnectPeriod: 0, clientId: 'bench', clean: false, properties });
  client.on('message', heard); // some come with the answer to the connect
  await once(client as unknown as EventEmitter, 'connect');
  return client;
}

async function open(closing: Closing): Promise<BrokerUnderTest> {
  const node = await MqttNode.start(['max_inflight_messages 0', 'max_queued_messages 0']);
  closing.add(() => node.remove());
  const subscriber = await visit(node.url);
  await subscriber.subscribeAsync(TOPIC, { qos: 1 });
  await subscriber.endAsync();
  const client = await connectPublisher(node.url);
  client.on('error', () => undefined);
  (client.stream as unknown as { setNoDelay(): void }).setNoDelay();
  closing.add(() => client.endAsync(true));
  const encoded = new Map<number, MqttPublish[]>();

  /** A batch is through when its last answer is. */
  const publish = (batch: readonly MqttPublish[]): Promise<void> =>
    new Promise((resolve, reject) => {
      let left = batch.length;
      for (const { topic, payload, properties } of batch)
        client.publish(topic, payload, { qos: 1, properties: properties as object }, (error) => {
          if (error) reject(error);
          else if (--left === 0) resolve();
        });
    });
  const alone = (batches: number) => async (count: number, keys: number) => {
    const all = encoded.get(keys) ?? encodeAll(keys);
    encoded.set(keys, all);
    return timed(() =>
      inFlight(batches, Math.ceil(count / BATCH), (n) =>
        publish(all.slice(n * BATCH, Math.min(count, (n + 1) * BATCH))),
      ),
    );
  };
  return {
    topic: TOPIC,
    definition: mqtt({ url: node.url }),
    ceilings: { mqttjs2x500: alone(2), mqttjs4x500: alone(4) },
    async expect(count) {
      let found = 0;
      const reader = await visit(node.url, () => (found += 1));
      for (const deadline = performance.now() + 30_000; found < count; await delay(20))
        if (performance.now() > deadline) throw new Error(`${found} messages arrived; must be ${count}.`);
      await reader.endAsync();
      if (found !== count) throw new Error(`${found} messages arrived; must be ${count}.`);
    },
  };
}

benchBroker('mqtt', size, open, { noDelay: true });
