import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, headers as newHeaders, type MsgHdrs } from '@nats-io/transport-node';
import { contractMessage } from '../lib/testing/transport-contract/contract-message.js';
import { nats } from '../lib/transports/nats/nats.js';
import { createEncoder } from '../lib/transports/nats/message.js';
import { resolveNatsOptions } from '../lib/transports/nats/options.js';
import { argumentsOf, BATCH, benchBroker, inFlight, type BrokerUnderTest } from './support/broker-drain.js';
import { timed } from './support/measure.js';
import { PAYLOAD } from './support/rows.js';
import type { Closing } from './support/run.js';

/**
 * A backlog in PostgreSQL published to JetStream, answered and settled, over 10,000, 100 and 10 keys, against `@nats-io/jetstream`
 * alone: the same headers and bytes from memory, 2 × 500 and 4 × 500 in flight, the better of both.
 *   npm run bench -- nats [messages=60000] [repeats=5]
 * Uses a stream of its own, in files, on the server of OUTBOX_TEST_NATS_URL, or on loopback.
 */
const size = argumentsOf(60_000);
const servers = process.env['OUTBOX_TEST_NATS_URL'] ?? 'nats://127.0.0.1:4222';
const options = { client: { servers }, maxPayloadBytes: 1024 * 1024 };

interface Encoded {
  readonly payload: Uint8Array;
  readonly headers: MsgHdrs;
}

/** What the transport sends, as the client takes it, made before the clock runs. */
function encodeAll(topic: string, keys: number): Encoded[] {
  const encode = createEncoder(resolveNatsOptions(options));
  return Array.from({ length: size.messages }, (_, n) => {
    const message = contractMessage({ topic, key: `k${n % keys}`, type: 'order.placed', payload: PAYLOAD });
    const { payload, headers } = encode(message);
    const lines = Buffer.from(headers.encode()).toString().trim().split('\r\n').slice(1);
    const given = newHeaders();
    for (const line of lines) given.append(line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2));
    return { payload, headers: given };
  });
}

async function open(closing: Closing): Promise<BrokerUnderTest> {
  const stream = `outbox-bench-${randomBytes(5).toString('hex')}`;
  const connection = await connect({ servers });
  closing.add(() => connection.close());
  const manager = await jetstreamManager(connection);
  // Each round sends the same ids: the shortest window that there is, and what it holds is purged with its messages.
  await manager.streams.add({ name: stream, subjects: [stream], duplicate_window: 100_000_000 });
  closing.add(() => manager.streams.delete(stream));
  const client = jetstream(connection, { timeout: 30_000 });
  const encoded = new Map<number, Encoded[]>();
  const publish = async (batch: readonly Encoded[]): Promise<void> => {
    await Promise.all(batch.map(({ payload, headers }) => client.publish(stream, payload, { headers })));
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
    definition: nats(options),
    ceilings: { jetstream2x500: alone(2), jetstream4x500: alone(4) },
    async expect(count) {
      const deadline = performance.now() + 30_000;
      for (;;) {
        const { messages: found } = (await manager.streams.info(stream)).state;
        if (found === count) break;
        if (performance.now() > deadline) throw new Error(`${found} messages in the stream; must be ${count}.`);
        await delay(20);
      }
      await manager.streams.purge(stream);
      await delay(200); // until the window is over
    },
  };
}

benchBroker('nats', size, open, { storage: 'file' });
