import { Kafka, logLevel } from 'kafkajs';
import type { Sight } from './consumer-process.js';

/**
 * One topic for each transport, by offset: whatever the group does after a fault, each record is seen once and in order;
 * late, sometimes by half a minute, so that the time that counts is the broker's.
 */
export async function consumeKafka(url: string, transports: readonly string[], sight: Sight): Promise<void> {
  const kafka = new Kafka({
    clientId: 'chaos-consumer',
    brokers: [url],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 10_000, restartOnFailure: async () => true },
  });
  const consumer = kafka.consumer({ groupId: 'chaos', maxWaitTimeInMs: 100, sessionTimeout: 30_000 });
  const topics = transports.map((name) => `${name}.orders`);
  const next = new Map<string, number>();
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
  await consumer.run({
    autoCommitInterval: 1_000,
    eachBatch: async ({ batch: { topic, partition, messages } }) => {
      const place = `${topic}/${partition}`;
      let expected = next.get(place) ?? 0;
      for (const { offset, value, headers, timestamp } of messages) {
        if (Number(offset) < expected) continue;
        expected = Number(offset) + 1;
        sight(topics.indexOf(topic), Number(headers?.['run']), false, value, Number(timestamp));
      }
      next.set(place, expected);
    },
  });
  await joined;
}
