import type { ChannelModel } from 'amqplib';
import { PAYLOAD } from '../support/rows.js';
import type { Closing } from '../support/run.js';
import { now } from './latencies.js';

const EVERY = 50;

/** Its messages, which the consumer does not count. */
export const PROBE = 'probe';

/** What the broker itself takes to confirm a message in the queue of the load: no relay can be faster. */
export async function probeBroker(closing: Closing, connection: ChannelModel, queue: string): Promise<() => number[]> {
  const channel = await connection.createConfirmChannel();
  const values: number[] = [];
  const probing = setInterval(() => {
    const at = now();
    channel.sendToQueue(queue, Buffer.from(PAYLOAD), { persistent: true, type: PROBE }, (error: unknown) => {
      if (!error) values.push(now() - at);
    });
  }, EVERY);
  closing.add(() => clearInterval(probing));
  return () => values.splice(0);
}
