import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import amqp from 'amqplib';
import { rabbitmq } from '../lib/transports/rabbitmq/rabbitmq.js';
import type { RabbitMqPublish } from '../lib/transports/rabbitmq/client.js';
import { createEncoder } from '../lib/transports/rabbitmq/message.js';
import { resolveRabbitMqOptions } from '../lib/transports/rabbitmq/option-checks.js';
import { contractMessage } from '../lib/testing/transport-contract/contract-message.js';
import { argumentsOf, BATCH, benchBroker, inFlight, type BrokerUnderTest } from './support/broker-drain.js';
import { timed } from './support/measure.js';
import { PAYLOAD } from './support/rows.js';
import type { Closing } from './support/run.js';

/**
 * A backlog in PostgreSQL published to RabbitMQ, confirmed and settled, over 10,000, 100 and 10 keys, against amqplib alone:
 * the same bytes from memory, confirm channel, quorum queue, Nagle's algorithm off, 2 × 500 and 4 × 500 in flight, the
 * better of both.
 *   npm run bench -- rabbitmq [messages=60000] [repeats=5]
 * Uses a queue of its own on the server of OUTBOX_TEST_RABBITMQ_URL, or on loopback.
 */
const size = argumentsOf(60_000);
const url = process.env['OUTBOX_TEST_RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672';

/** Exactly what the transport hands to amqplib, made before the clock runs. */
function encodeAll(topic: string, keys: number): RabbitMqPublish[] {
  const encode = createEncoder(resolveRabbitMqOptions({ url }));
  return Array.from({ length: size.messages }, (_, n) => {
    const message = contractMessage({ topic, key: `k${n % keys}`, type: 'order.placed', payload: PAYLOAD });
    return encode(message);
  });
}

async function open(closing: Closing): Promise<BrokerUnderTest> {
  const queue = `outbox-bench-${randomBytes(5).toString('hex')}`;
  const connection = await amqp.connect(url, { noDelay: true });
  connection.on('error', () => undefined);
  closing.add(() => connection.close());
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
  closing.add(() => channel.deleteQueue(queue));
  const encoded = new Map<number, RabbitMqPublish[]>();

  /** A batch is through when its last confirm is. */
  const publish = (batch: readonly RabbitMqPublish[]): Promise<void> =>
    new Promise((resolve, reject) => {
      let left = batch.length;
      const confirmed = (error: unknown): void => {
        if (error !== null && error !== undefined) reject(error as Error);
        else if (--left === 0) resolve();
      };
      for (const { exchange, routingKey, content, properties } of batch) {
        channel.publish(exchange, routingKey, content, properties, confirmed);
      }
    });
  const alone = (batches: number) => async (count: number, keys: number) => {
    const all = encoded.get(keys) ?? encodeAll(queue, keys);
    encoded.set(keys, all);
    return timed(() =>
      inFlight(batches, Math.ceil(count / BATCH), (n) =>
        publish(all.slice(n * BATCH, Math.min(count, (n + 1) * BATCH))),
      ),
    );
  };
  return {
    topic: queue,
    definition: rabbitmq({ url }),
    ceilings: { amqplib2x500: alone(2), amqplib4x500: alone(4) },
    async expect(count) {
      const deadline = performance.now() + 30_000;
      for (;;) {
        const { messageCount } = await channel.checkQueue(queue);
        if (messageCount === count) break;
        if (performance.now() > deadline) throw new Error(`${messageCount} messages in the queue; must be ${count}.`);
        await delay(20);
      }
      await channel.purgeQueue(queue);
    },
  };
}

benchBroker('rabbitmq', size, open, { queue: 'quorum', noDelay: true });
