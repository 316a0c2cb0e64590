import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { redis } from '../lib/transports/redis/index.js';
import { createEntry } from '../lib/transports/redis/entry.js';
import { resolveRedisOptions } from '../lib/transports/redis/options.js';
import { contractMessage } from '../lib/testing/transport-contract/contract-message.js';
import { argumentsOf, BATCH, benchBroker, inFlight, type BrokerUnderTest } from './support/broker-drain.js';
import { timed } from './support/measure.js';
import { PAYLOAD } from './support/rows.js';
import type { Closing } from './support/run.js';

/**
 * A backlog in PostgreSQL published to Redis Streams, answered and settled, over 10,000, 100 and 10 keys, against ioredis alone: the
 * same commands from memory, one connection, pipelines of 500, 2 and 4 of them in flight, the better of both.
 *   npm run bench -- redis [messages=60000] [repeats=5]
 * Uses a stream of its own on the server of OUTBOX_TEST_REDIS_URL, or on loopback.
 */
const size = argumentsOf(60_000);
const url = process.env['OUTBOX_TEST_REDIS_URL'] ?? 'redis://127.0.0.1:6379';
type Arguments = ReturnType<ReturnType<typeof createEntry>>;

/** Exactly what the transport hands to ioredis, made before the clock runs. */
function encodeAll(topic: string, keys: number): Arguments[] {
  const encode = createEntry(resolveRedisOptions({ url }));
  return Array.from({ length: size.messages }, (_, n) =>
    encode(contractMessage({ topic, key: `k${n % keys}`, type: 'order.placed', payload: PAYLOAD })),
  );
}

async function open(closing: Closing): Promise<BrokerUnderTest> {
  const stream = `outbox-bench-${randomBytes(5).toString('hex')}`;
  const client = new Redis(url);
  closing.add(() => client.quit());
  closing.add(() => client.del(stream));
  const encoded = new Map<number, Arguments[]>();
  const publish = async (batch: readonly Arguments[]): Promise<void> => {
    const answers = await client.pipeline(batch.map((args) => ['xadd', ...args])).exec();
    for (const [error] of answers ?? []) if (error !== null) throw error;
  };
  const alone = (batches: number) => async (count: number, keys: number) => {
    const all = encoded.get(keys) ?? encodeAll(stream, keys);
    encoded.set(keys, all);
    return timed(() =>
      inFlight(batches, Math.ceil(count / BATCH), (n) =>
        publish(all.slice(n * BATCH, Math.min(count, (n + 1) * BATCH))),
      ),
    );
  };
  return {
    topic: stream,
    definition: redis({ url }),
    ceilings: { ioredis2x500: alone(2), ioredis4x500: alone(4) },
    async expect(count) {
      const length = await client.xlen(stream);
      if (length !== count) throw new Error(`${length} entries in the stream; must be ${count}.`);
      await client.del(stream);
    },
  };
}

benchBroker('redis', size, open);
