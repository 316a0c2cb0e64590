import { connectAsync } from 'mqtt';
import { mqtt } from 'nestjs-outbox/mqtt';
import type { Broker } from '../broker.js';

/** A session that outlives its connection, and gets one message at a time. */
export async function open(url: string, prefix: string): Promise<Broker> {
  const session = {
    protocolVersion: 5,
    clientId: `${prefix}billing`,
    clean: false,
    properties: { sessionExpiryInterval: 3_600, receiveMaximum: 1 },
  } as const;
  const client = await connectAsync(url, session, false);
  client.on('error', () => undefined);
  return {
    transport: mqtt({ url, topicPrefix: prefix }),
    async consume(handle) {
      // mqtt.js acknowledges a message when this calls back.
      client.handleMessage = ({ payload, properties }, done) =>
        void handle(String(properties?.userProperties?.['id']), String(payload)).then(
          () => done(),
          () => client.stream.destroy(), // comes again with the next connection
        );
      await client.subscribeAsync(`${prefix}orders`, { qos: 1 });
    },
    async close() {
      await client.endAsync(false, { properties: { sessionExpiryInterval: 0 } }); // nobody comes back
    },
  };
}
