import type { KafkaOptions as NestKafkaOptions } from '@nestjs/microservices';
import type { OutboxMessage } from '../../outbox-message.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { kafkaSending } from '../kafka/kafka.js';
import { COMPRESSIONS, type KafkaOptions } from '../kafka/options.js';
import type { GivenRecord, KafkaRecord } from '../kafka/records.js';
import { kafkaLimits } from '../kafkajs/limits.js';
import { optionsOf, unread } from './client-options.js';
import type { EventSettings } from './event-maker.js';
import type { NestClient, Packet } from './kind.js';
import { served } from './served.js';

type ClientKafkaOptions = NonNullable<NestKafkaOptions['options']>;

const CLIENT = {
  name: 'ClientKafka',
  instead: 'kafka()',
  read: ['client', 'postfixId', 'producer', 'send', 'serializer'],
  ignored: ['consumer', 'run', 'subscribe', 'parser', 'deserializer', 'producerOnlyMode'],
  methods: ['emit', 'createPacket', 'dispatchEvent', 'normalizePattern', 'createClient'],
};
const PRODUCER = ['createPartitioner', 'allowAutoTopicCreation', 'idempotent', 'retry', 'metadataMaxAge'];
/** kafka() has one send at a time on a producer, and each ends with its publish. */
const IGNORED = ['maxInFlightRequests', 'transactionTimeout', 'timeout'];

/** `kafka()` with the options of a ClientKafka, and its records. */
export function throughKafka(client: NestClient, settings: EventSettings): TransportDefinition {
  const options = kafkaOptionsOf(optionsOf(client, CLIENT, problemsOf));
  const made = new WeakMap<OutboxMessage, GivenRecord>();
  const make = async (message: OutboxMessage, emitted: Packet): Promise<OutboxMessage> => {
    made.set(message, await recordOf(client, emitted));
    return message;
  };
  const definition = kafkaSending(options, (message) => made.get(message));
  return served(definition, { kind: 'kafka', limits: kafkaLimits(), settings, make });
}

function problemsOf({ producer, send }: ClientKafkaOptions): string[] {
  return [
    ...unread(producer, [...PRODUCER, ...IGNORED], 'producer.'),
    ...unread(send, ['acks', 'compression', ...IGNORED], 'send.'),
    ...(send?.acks === 0 ? ['send.acks: 0, with which the broker sends no answer'] : []),
  ];
}

/** What Nest's constructor and `createClient` make of them; what is undefined is as if it was not there. */
function kafkaOptionsOf(options: ClientKafkaOptions): KafkaOptions {
  const { client, postfixId = '-client', producer = {}, send = {} } = options;
  const { retry, metadataMaxAge, createPartitioner: partitioner, idempotent } = producer;
  const { acks, compression = 0 } = send;
  return {
    client: {
      ...client,
      brokers: client?.brokers ?? ['localhost:9092'],
      clientId: (client?.clientId || 'nestjs-consumer') + postfixId,
    },
    producer: { retry, metadataMaxAge },
    allowAutoTopicCreation: producer.allowAutoTopicCreation ?? true, // as kafkajs has it
    ...{ partitioner, idempotent, acks },
    compression: Object.keys(COMPRESSIONS)[compression] ?? String(compression),
  } as KafkaOptions;
}

/** As Nest's `dispatchEvent`. */
async function recordOf(client: NestClient, { pattern, data }: Packet): Promise<GivenRecord> {
  if (data === undefined || data === null) throw new TypeError('There is nothing to emit: the record is empty.');
  const topic = client.normalizePattern(pattern);
  if (typeof topic !== 'string') throw new TypeError('The pattern is no topic.');
  const record = (await client.serializer.serialize(data, { pattern: topic })) as KafkaRecord | undefined;
  // Over one of them kafkajs throws a whole request away, with an error that speaks of no message.
  if (record?.value === undefined) throw new TypeError('The serializer gave no record with a value.');
  return { topic, record };
}
