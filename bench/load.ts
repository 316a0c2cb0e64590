import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import amqp from 'amqplib';
import type { Sighting } from './load/relay.js';
import type { Committed } from './load/writer.js';
import { Latencies } from './load/latencies.js';
import { PROBE, probeBroker } from './load/probe.js';
import { Watch } from './load/watch.js';
import { child, untilReady } from './support/child.js';
import { argument, round, smoke } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { connect, createTables, untilEmpty } from './support/relay.js';
import { fillReady, PAYLOAD_BYTES } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * A steady load for long: does anything grow? Half of what the relay drains to RabbitMQ, in transactions of ten messages, from a
 * writer in a process of its own; the relay's memory, descriptors and connections, the table, its index and dead rows, and latency
 * (commit acknowledged → broker's confirm) are looked at all the time, beside what the broker takes to confirm what has waited for no relay.
 *   npm run bench -- load [minutes=60] [messagesPerSecond=0: half of the drain]
 * Uses a queue of its own on the server of OUTBOX_TEST_RABBITMQ_URL, or on loopback.
 */
const minutes = argument(0, 'minutes', 60);
const wanted = argument(1, 'messagesPerSecond', 0);
const broker = process.env['OUTBOX_TEST_RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672';
/** What the drain speed is measured with. */
const BACKLOG = smoke(200_000, 2_000);
/** Milliseconds. */
const MINUTE = smoke(60_000, 1_000);
const LAST_ARRIVALS = 60_000;

interface Consumer {
  readonly queue: string;
  /** Deliveries so far; nothing is kept of them. */
  received(): number;
  /** Milliseconds that the broker took to confirm single messages beside the load, since the last call. */
  confirms(): number[];
}

async function consume(closing: Closing): Promise<Consumer> {
  const queue = `outbox-load-${randomBytes(5).toString('hex')}`;
  const connection = await amqp.connect(broker, { noDelay: true });
  connection.on('error', () => undefined);
  closing.add(() => connection.close());
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
  closing.add(() => channel.deleteQueue(queue));
  let count = 0;
  await channel.consume(queue, (message) => (count += message?.properties.type === PROBE ? 0 : 1), { noAck: true });
  const confirms = await probeBroker(closing, connection, queue);
  return { queue, received: () => count, confirms };
}

bench('load', async (closing) => {
  const server = await startPostgres(closing, { max_wal_size: '2GB', wal_level: 'replica', max_wal_senders: '0' });
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin = await adminClient(closing, server.url);
  const consumer = await consume(closing);
  await fillReady(admin, { rows: BACKLOG, keys: 10_000, topic: consumer.queue });

  const latencies = new Latencies();
  const relay = child(closing, 'load/relay.ts', [server.url, broker]);
  const begun = performance.now();
  await untilReady<Sighting[]>(relay, (sightings) => latencies.saw(sightings));
  const connecting = performance.now() - begun;
  await untilEmpty(dataSource);
  const drainPerSecond = (BACKLOG / (performance.now() - begun - connecting)) * 1_000;
  await admin.query('vacuum outbox_ready');
  const rate = wanted || Math.round(drainPerSecond / 2);
  console.log(`drain ${round(drainPerSecond)} messages/s; load ${rate} messages/s for ${minutes} min`);

  const writer = child(closing, 'load/writer.ts', [server.url, consumer.queue, String(rate)]);
  let committed = 0;
  await untilReady<Committed>(writer, ({ messages, sampled }) => {
    committed = messages;
    latencies.committed(sampled);
  });
  const watch = new Watch(admin, relay.pid as number, latencies, consumer.confirms);
  const from = performance.now();
  for (let minute = 1; minute <= minutes; minute += 1) {
    await watch.during(MINUTE);
    console.log(`${minute} min: ${JSON.stringify(watch.minutes.at(-1))}`);
  }
  const seconds = (performance.now() - from) / 1_000;
  const stopped = new Promise((resolve) => writer.once('disconnect', resolve));
  writer.send('stop');
  await stopped;
  const deadline = performance.now() + LAST_ARRIVALS;
  while (consumer.received() < BACKLOG + committed && performance.now() < deadline) await delay(100);
  return {
    minutes,
    payloadBytes: PAYLOAD_BYTES,
    drainPerSecond: round(drainPerSecond),
    wantedPerSecond: rate,
    committedPerSecond: round(committed / seconds),
    committed,
    missing: BACKLOG + committed - consumer.received(),
    ...watch.summary(),
  };
});
