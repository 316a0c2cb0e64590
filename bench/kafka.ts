import { randomBytes } from 'node:crypto';
import { connect as connectTcp } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import kafkajs, { type ISocketFactory, type KafkaConfig, type Producer, type TopicMessages } from 'kafkajs';
import { createEnvelope } from '../lib/transports/envelope.js';
import { kafka } from '../lib/transports/kafka/kafka.js';
import { MAX_MESSAGE_BYTES } from '../lib/transports/kafkajs/limits.js';
import { murmur2 } from '../lib/transports/kafka/partitioner.js';
import { RecordPlan } from '../lib/transports/kafka/records.js';
import { contractMessage } from '../lib/testing/transport-contract/contract-message.js';
import { BATCH, BrokerDrain, inFlight, warmUp, type BrokerUnderTest } from './support/broker-drain.js';
import { argument, Samples, timed } from './support/measure.js';
import { PAYLOAD, PAYLOAD_BYTES } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * A backlog in PostgreSQL published to Kafka, acknowledged by all replicas and settled, over 10,000, 100 and 10 keys, against
 * kafkajs alone: `sendBatch` of the same records from memory, idempotent, acks −1, batches of 500; one in flight, four on
 * one producer, and four producers with one each; the best of the three. `fenced` is the outbox with `fencing`, whose
 * transactions leave markers in the topic.
 *   npm run bench -- kafka [messages=60000] [repeats=5]
 * Starts an Apache Kafka of its own (Java 17 and Maven), unless OUTBOX_BENCH_KAFKA_BROKERS names one.
 */
const messages = argument(0, 'messages', 60_000);
const repeats = argument(1, 'repeats', 5);
const PARTITIONS = 6;
const PRODUCERS = 4;

/** kafkajs leaves Nagle's algorithm on; our transport does not, and neither does what it is compared with. */
const socketFactory: ISocketFactory = ({ host, port, onConnect }) => {
  const socket = connectTcp({ host, port }, onConnect);
  socket.setNoDelay(true);
  return socket;
};

/** The records that the transport makes, with their partitions, made before the clock runs. */
function encodeAll(topic: string, keys: number): TopicMessages[][] {
  const settings = { envelope: createEnvelope(), topicPrefix: '', maxBytes: MAX_MESSAGE_BYTES, fixedHeaderBytes: 0 };
  return Array.from({ length: Math.ceil(messages / BATCH) }, (_, batch) => {
    const size = Math.min(BATCH, messages - batch * BATCH);
    const all = Array.from({ length: size }, (__, n) => {
      const key = `k${(batch * BATCH + n) % keys}`;
      return contractMessage({ topic, key, type: 'order.placed', payload: PAYLOAD });
    });
    const chunk = new RecordPlan(all, settings).next();
    if (chunk?.size !== size) throw new Error('A batch must be one request.');
    return [...chunk.topics].map(([name, { records }]) => {
      for (const record of records) record.partition = (murmur2(record.key as string) & 0x7fffffff) % PARTITIONS;
      return { topic: name, messages: records };
    });
  });
}

async function startBroker(closing: Closing): Promise<string> {
  const given = process.env['OUTBOX_BENCH_KAFKA_BROKERS'];
  if (given !== undefined) return given;
  const { startKafkaBroker } = (await import('../tools/services/kafka-broker.mjs' as string)) as {
    startKafkaBroker(): Promise<{ url: string; stop(): Promise<void> }>;
  };
  const starting = startKafkaBroker();
  closing.add(async () => (await starting).stop()); // also when it is interrupted while it starts
  return (await starting).url;
}

/** Topics are made and counted with a client of its own. */
async function createTopic(closing: Closing, client: kafkajs.Kafka, topic: string): Promise<() => Promise<number>> {
  const admin = client.admin();
  await admin.connect();
  closing.add(() => admin.disconnect());
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }], waitForLeaders: false });
  closing.add(() => admin.deleteTopics({ topics: [topic] }));
  for (const deadline = performance.now() + 30_000; ; await delay(100)) {
    const found = await admin.fetchTopicMetadata({ topics: [topic] }).catch(() => undefined);
    const partitions = found?.topics[0]?.partitions ?? [];
    if (partitions.length === PARTITIONS && partitions.every(({ leader }) => leader >= 0)) break;
    if (performance.now() > deadline) throw new Error('The topic has no leaders.');
  }
  return async () => (await admin.fetchTopicOffsets(topic)).reduce((sum, { high }) => sum + Number(high), 0);
}

async function open(closing: Closing): Promise<BrokerUnderTest> {
  const config: KafkaConfig = {
    clientId: 'outbox-bench',
    brokers: (await startBroker(closing)).split(','),
    logLevel: kafkajs.logLevel.NOTHING,
  };
  const client = new kafkajs.Kafka({ ...config, socketFactory });
  const topic = `outbox-bench-${randomBytes(5).toString('hex')}`;
  const total = await createTopic(closing, client, topic);
  const producers: Producer[] = [];
  for (let n = 0; n < PRODUCERS; n += 1) {
    const producer = client.producer({ idempotent: true, createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
    await producer.connect();
    closing.add(() => producer.disconnect());
    producers.push(producer);
  }
  const encoded = new Map<number, TopicMessages[][]>();
  const alone = (batches: number, count: number) => async (wanted: number, keys: number) => {
    const all = encoded.get(keys) ?? encodeAll(topic, keys);
    encoded.set(keys, all);
    return timed(() =>
      inFlight(batches, Math.ceil(wanted / BATCH), (n, worker) =>
        (producers[worker % count] as Producer).sendBatch({ acks: -1, topicMessages: all[n] as TopicMessages[] }),
      ),
    );
  };
  let before = 0;
  return {
    topic,
    definition: kafka({ client: config }),
    ceilings: { kafkajs1: alone(1, 1), kafkajs4: alone(PRODUCERS, 1), kafkajs4x1: alone(PRODUCERS, PRODUCERS) },
    variants: { fenced: kafka({ client: config, fencing: { transactionalId: topic } }) },
    async expect(count, markers = false) {
      const now = await total();
      if (markers ? now - before < count : now - before !== count)
        throw new Error(`${now - before} records in the topic; must be ${count}.`);
      before = now;
    },
  };
}

bench('kafka', async (closing) => {
  const broker = await open(closing);
  const run = await BrokerDrain.open(closing, broker, messages);
  const samples = new Samples();
  await warmUp(broker, Math.min(messages, 10_000));
  for (let repeat = 0; repeat < repeats; repeat += 1) await run.repeat(samples);
  return {
    messages,
    payloadBytes: PAYLOAD_BYTES,
    batch: BATCH,
    repeats,
    partitions: PARTITIONS,
    noDelay: true,
    ...samples.medians(),
    ratioRange: samples.range('keys10000Ratio'),
  };
});
