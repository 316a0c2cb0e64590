import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { loginOf } from './transport-nats.js';
import type { Sight } from './consumer-process.js';

/** An ordered consumer of each stream: it goes on behind what it has seen, whatever happens to the server. */
export async function consume(url: string, transports: readonly string[], sight: Sight): Promise<void> {
  const always = { maxReconnectAttempts: -1, reconnectTimeWait: 200, pingInterval: 5_000 };
  const connection = await connect({ ...loginOf(url), ...always });
  for (const [index, name] of transports.entries()) {
    const consumer = await jetstream(connection).consumers.get(name);
    const messages = await consumer.consume({ idle_heartbeat: 1_000, expires: 5_000 });
    void (async () => {
      for await (const { headers, data, info } of messages)
        sight(index, Number(headers?.get('run')), false, Buffer.from(data), info.timestampNanos / 1e6);
      throw new Error(`The consumer of ${name} has ended.`);
    })();
  }
}
