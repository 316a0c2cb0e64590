import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  PurgeQueueCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { createEnvelope } from '../lib/transports/envelope.js';
import { entryOf, type SqsEntry } from '../lib/transports/sqs/entry.js';
import { sqs } from '../lib/transports/sqs/sqs.js';
import { contractMessage } from '../lib/testing/transport-contract/contract-message.js';
import { argumentsOf, benchBroker, inFlight, type BrokerUnderTest } from './support/broker-drain.js';
import { timed } from './support/measure.js';
import { PAYLOAD } from './support/rows.js';
import type { Closing } from './support/run.js';

/**
 * A backlog in PostgreSQL published to ElasticMQ in memory, answered and settled, over 10,000, 100 and 10 keys, against the AWS SDK
 * alone: the same entries from memory, ten in a request, 20 and 50 requests at a time, the better of both. A standard queue.
 *   npm run bench -- sqs [messages=20000] [repeats=5]
 * Starts an ElasticMQ of its own (Java 17 and Maven), unless OUTBOX_TEST_SQS_URL names one.
 */
const size = argumentsOf(20_000);
const PER_REQUEST = 10;

/** Exactly what the transport hands to the SDK, made before the clock runs. */
function encodeAll(topic: string, keys: number): SqsEntry[] {
  const settings = { envelope: createEnvelope(), maxBytes: 262_144, isFifo: false };
  return Array.from({ length: size.messages }, (_, n) => {
    const message = contractMessage({ topic, key: `k${n % keys}`, type: 'order.placed', payload: PAYLOAD });
    return entryOf(message, settings).entry;
  });
}

async function serverUrl(closing: Closing): Promise<string> {
  const given = process.env['OUTBOX_TEST_SQS_URL'];
  if (given !== undefined) return given;
  const { startElasticMq } = (await import('../tools/services/elasticmq.mjs' as string)) as {
    startElasticMq(): Promise<{ readonly url: string; stop(): Promise<void> }>;
  };
  const server = await startElasticMq();
  closing.add(() => server.stop());
  return server.url;
}

async function open(closing: Closing): Promise<BrokerUnderTest> {
  const endpoint = await serverUrl(closing);
  const config = { endpoint, region: 'elasticmq', credentials: { accessKeyId: 'bench', secretAccessKey: 'bench' } };
  const client = new SQSClient({ ...config, maxAttempts: 1 });
  closing.add(() => client.destroy());
  const topic = `outbox-bench-${randomBytes(5).toString('hex')}`;
  const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: topic }));
  closing.add(() => client.send(new DeleteQueueCommand({ QueueUrl })));
  const encoded = new Map<number, SqsEntry[]>();
  const alone = (requests: number) => async (count: number, keys: number) => {
    const all = encoded.get(keys) ?? encodeAll(topic, keys);
    encoded.set(keys, all);
    return timed(() =>
      inFlight(requests, Math.ceil(count / PER_REQUEST), async (n) => {
        const part = all.slice(n * PER_REQUEST, Math.min(count, (n + 1) * PER_REQUEST));
        const Entries = part.map((entry, index) => ({ Id: String(index), ...entry }));
        const { Failed = [] } = await client.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
        if (Failed.length > 0) throw new Error(`${Failed.length} messages were refused: ${Failed[0]!.Code}.`);
      }),
    );
  };
  return {
    topic,
    definition: sqs({ client: config }),
    ceilings: { sdk20Requests: alone(20), sdk50Requests: alone(50) },
    async expect(count) {
      const asked = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] });
      for (const deadline = performance.now() + 30_000; ; await delay(20)) {
        const found = Number((await client.send(asked)).Attributes!['ApproximateNumberOfMessages']);
        if (found === count) break;
        if (performance.now() > deadline) throw new Error(`${found} messages in the queue; must be ${count}.`);
      }
      await client.send(new PurgeQueueCommand({ QueueUrl }));
    },
  };
}

benchBroker('sqs', size, open, { queue: 'standard, in memory', maxRequests: 50 });
