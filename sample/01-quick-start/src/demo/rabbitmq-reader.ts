import amqp from 'amqplib';
import { reach } from './reach.js';
import type { Received, Reader } from './received.js';

/** A consumer of its own, with a queue that exists for this run only. */
export async function startRabbitMqReader(url: string, prefix: string): Promise<Reader> {
  const queue = `${prefix}orders`;
  const connection = await reach('RabbitMQ', url, () => amqp.connect(url, { timeout: 30_000 }));
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true });
  const received: Received[] = [];
  await channel.consume(
    queue,
    (message) => {
      if (message === null) return;
      const { messageId, type, headers } = message.properties;
      const payload = JSON.parse(message.content.toString()) as Received['payload'];
      received.push({ id: String(messageId), type: String(type), key: String(headers?.['key']), payload });
    },
    { noAck: true },
  );
  return {
    received,
    async stop() {
      await channel.deleteQueue(queue);
      await connection.close();
    },
  };
}
