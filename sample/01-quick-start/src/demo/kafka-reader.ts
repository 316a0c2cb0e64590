import { Kafka, logLevel } from 'kafkajs';
import { reach } from './reach.js';
import type { Received, Reader } from './received.js';

/** A consumer of its own, with a topic and a group that exist for this run only. */
export async function startKafkaReader(brokers: string, prefix: string): Promise<Reader> {
  const topic = `${prefix}orders`;
  const groupId = `${prefix}reader`;
  const config = { clientId: 'reader', brokers: brokers.split(','), logLevel: logLevel.NOTHING };
  await reach('Kafka', brokers, async () => {
    const once = new Kafka({ ...config, connectionTimeout: 30_000, retry: { retries: 0 } }).admin();
    await once.connect().finally(() => once.disconnect());
  });
  const kafka = new Kafka({ ...config, retry: { retries: 20 } }); // a busy broker takes its time to lead a new topic
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 4, replicationFactor: 1 }] });
  const received: Received[] = [];
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message: { key, value, headers } }) => {
      received.push({
        id: String(headers?.['id']),
        type: String(headers?.['type']),
        key: key === null ? null : key.toString(),
        payload: JSON.parse(value!.toString()) as Received['payload'],
      });
    },
  });
  return {
    received,
    async stop() {
      await consumer.disconnect();
      await admin.deleteGroups([groupId]);
      await admin.deleteTopics({ topics: [topic] });
      await admin.disconnect();
    },
  };
}
