import { setTimeout as pause } from 'node:timers/promises';
import amqp, { type Channel, type ChannelModel } from 'amqplib';
import type { Sight } from './consumer-process.js';

const ACKNOWLEDGE_EVERY = 50;

/** One queue for each transport. A lost connection is opened again; what was not acknowledged comes marked as redelivered. */
export async function consume(url: string, transports: readonly string[], sight: Sight): Promise<void> {
  return new Promise((resolve) => {
    const loop = async (): Promise<never> => {
      for (;;) {
        const opened = await open(url, transports, sight).catch((error: unknown) => {
          console.error(String(error));
          return undefined;
        });
        if (opened !== undefined) resolve(); // the first time; later it does nothing
        await opened?.closed;
        await pause(200);
      }
    };
    void loop();
  });
}

async function open(url: string, transports: readonly string[], sight: Sight): Promise<{ closed: Promise<void> }> {
  const connection: ChannelModel = await amqp.connect(url, { timeout: 3_000, noDelay: true, heartbeat: 5 } as object);
  connection.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => connection.once('close', () => resolve()));
  try {
    const channels = await Promise.all(transports.map((name, index) => consumeQueue(connection, name, index, sight)));
    return { closed: closed.finally(() => channels.forEach((end) => end())) };
  } catch (error) {
    await connection.close().catch(() => undefined);
    throw error;
  }
}

async function consumeQueue(
  connection: ChannelModel,
  queue: string,
  transport: number,
  sight: Sight,
): Promise<() => void> {
  const channel: Channel = await connection.createChannel();
  channel.on('error', () => undefined);
  await channel.prefetch(2_000);
  let last: Parameters<Channel['ack']>[0] | undefined;
  const timer = setInterval(() => {
    const acknowledged = last;
    last = undefined;
    if (acknowledged !== undefined) channel.ack(acknowledged, true);
  }, ACKNOWLEDGE_EVERY);
  channel.once('close', () => clearInterval(timer));
  await channel.consume(queue, (message) => {
    if (message === null) return void connection.close().catch(() => undefined);
    last = message;
    sight(transport, Number(message.properties.appId), message.fields.redelivered, message.content);
  });
  return () => clearInterval(timer);
}
