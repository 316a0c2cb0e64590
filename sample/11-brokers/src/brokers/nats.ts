import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { nats } from 'nestjs-outbox/nats';
import type { Broker } from '../broker.js';

/** A stream of one subject, with a consumer that has one message at a time. */
export async function open(url: string, prefix: string): Promise<Broker> {
  const stream = `${prefix}orders`;
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: stream, subjects: [stream] });
  await manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', max_ack_pending: 1 });
  return {
    transport: nats({ client: { servers: url }, subjectPrefix: prefix, stream }),
    async consume(handle) {
      const consumer = await jetstream(connection).consumers.get(stream, 'billing');
      await consumer.consume({
        callback: (message) =>
          void handle(message.headers?.get('id') ?? '', message.string()).then(
            () => message.ack(),
            () => message.nak(1_000), // again, in a second
          ),
      });
    },
    async close() {
      await manager.streams.delete(stream);
      await connection.close();
    },
  };
}
