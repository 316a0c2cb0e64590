import { once } from 'node:events';
import { Redis } from 'ioredis';
import { redis } from 'nestjs-outbox/redis';
import { asking, type Broker } from '../broker.js';

type Found = [stream: string, entries: [entry: string, fields: string[]][]][] | null;

/** A stream with a group of one reader. */
export async function open(url: string, prefix: string): Promise<Broker> {
  const stream = `${prefix}orders`;
  // 0: ioredis would send a read again, past the entries of the answer that was lost.
  const client = new Redis(url, { maxRetriesPerRequest: 0 });
  client.on('error', () => undefined); // who waits is told
  await once(client, 'ready');
  await client.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM');
  let end = async (): Promise<void> => undefined;
  return {
    transport: redis({ url, streamPrefix: prefix, createStreams: false }),
    async consume(handle) {
      let from = '0';
      end = asking(async () => {
        const args = ['GROUP', 'billing', 'billing-1', 'COUNT', 100, 'BLOCK', 500, 'STREAMS', stream, from];
        const isAgain = from === '0';
        from = '0'; // what fails comes again, before what is new
        const entries = ((await client.call('XREADGROUP', args)) as Found)?.[0]?.[1] ?? [];
        for (const [entry, fields] of entries) {
          const field = (name: string): string => fields.find((_, n) => n % 2 === 1 && fields[n - 1] === name)!;
          await handle(field('id'), field('payload'));
          await client.xack(stream, 'billing', entry);
        }
        if (isAgain && entries.length === 0) from = '>';
      });
    },
    async close() {
      await end();
      await client.del(stream);
      client.disconnect();
    },
  };
}
