import type { ChannelModel } from 'amqplib';
import { PAYLOAD } from '../support/rows.js';
import type { Closing } from '../support/run.js';
import { now } from './latencies.js';

const EVERY = 50;

/** What the broker itself takes to confirm a message, in a queue of its own, beside the load: no relay can be faster. */
export async function probeBroker(closing: Closing, connection: ChannelModel, queue: string): Promise<() => number[]> {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
  closing.add(() => channel.deleteQueue(queue));
  await channel.consume(queue, () => undefined, { noAck: true });
  const values: number[] = [];
  const probing = setInterval(() => {
    const at = now();
    channel.sendToQueue(queue, Buffer.from(PAYLOAD), { persistent: true }, (error: unknown) => {
      if (!error) values.push(now() - at);
    });
  }, EVERY);
  closing.add(() => clearInterval(probing));
  return () => values.splice(0);
}
