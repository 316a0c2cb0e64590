import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { SEASONAL } from '../settings.js';
import type { Sight } from './consumer-process.js';

type Entry = readonly [id: Buffer, fields: readonly Buffer[]];
type Reply = readonly (readonly [stream: Buffer, entries: readonly Entry[]])[] | null;

/** Two streams for each transport, from their beginning, each entry once. The time that counts is the server's, in the id. */
export async function consume(url: string, transports: readonly string[], sight: Sight): Promise<void> {
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 200, connectTimeout: 3_000 });
  client.on('error', () => undefined);
  await client.ping();
  const streams = new Map<string, number>(
    transports.flatMap((name, n) => ['orders', SEASONAL].map((topic) => [`${name}.${topic}`, n] as const)),
  );
  const last = new Map([...streams.keys()].map((stream) => [stream, '0']));
  const read = async (): Promise<never> => {
    for (;;) {
      const args = ['COUNT', 2_000, 'BLOCK', 200, 'STREAMS', ...last.keys(), ...last.values()];
      const found = (await client.callBuffer('XREAD', args).catch(() => pause(200, null))) as Reply;
      for (const [name, entries] of found ?? [])
        for (const [id, fields] of entries) {
          const stream = name.toString();
          last.set(stream, id.toString());
          const value = (field: string) =>
            fields[fields.findIndex((each, n) => n % 2 === 0 && each.equals(Buffer.from(field))) + 1];
          const at = Number(id.toString().split('-')[0]);
          sight(streams.get(stream)!, Number(value('run')), false, value('payload') ?? null, at);
        }
    }
  };
  void read();
}
