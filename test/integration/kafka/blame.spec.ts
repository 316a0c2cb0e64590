import type { OutboxDispatcher } from '../../../lib/index.js';
import type { NewMessage } from '../../../lib/outbox-message.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

const NEIGHBOURS = 99;
const KEYS = 9;
const bytes = (count: number) => Buffer.alloc(count, 'x');

interface Row {
  readonly code: string;
  /** Settings of the poison's topic; none: no such topic. */
  readonly topic?: Record<string, string>;
  readonly poison?: Partial<NewMessage>;
  readonly options?: Partial<KafkaOptions>;
  /** It is nobody's fault: the message waits. */
  readonly waits?: true;
}
const CHARGED: readonly Row[] = [
  { code: 'MESSAGE_TOO_LARGE', topic: { 'max.message.bytes': '1000' }, poison: { payload: bytes(2_000) } },
  {
    // Kafka makes no segments below 1 MiB.
    code: 'RECORD_LIST_TOO_LARGE',
    topic: { 'max.message.bytes': '2000000', 'segment.bytes': '1048576' },
    poison: { payload: bytes(1_100_000) },
    options: { maxMessageBytes: 2_000_000 },
  },
  { code: 'INVALID_RECORD', topic: { 'cleanup.policy': 'compact' }, poison: { key: null } },
  {
    code: 'INVALID_TIMESTAMP',
    topic: { 'message.timestamp.before.max.ms': '3600000' },
    poison: { options: JSON.stringify({ kafka: { timestamp: 1_000 } }) },
  },
  { code: 'INVALID_TOPIC_EXCEPTION', poison: { topic: 'no topic at all!' } },
  { code: 'UNKNOWN_TOPIC_OR_PARTITION', waits: true }, // last: it stays
];

/**
 * What one broker says of a message by itself. Of rights and logins: codes.spec.ts. Of leaders, replicas (a lone broker
 * asks for no more in-sync replicas than there are), disks and all the rest: answers.spec.ts.
 */
describeWith(['kafka', 'postgres'], 'one message that Kafka refuses among a hundred', () => {
  let harness: Harness;
  let running: OutboxDispatcher | undefined;
  const topics = new TestTopics();
  beforeAll(async () => {
    harness = await createHarness('postgres', { retry: { maxAttempts: 1 } });
    await topics.start();
  });
  afterEach(() => running?.stop());
  afterAll(async () => {
    await harness.close();
    await topics.stop();
  });

  it.each(CHARGED)(
    'C10, C3: $code: it alone dies, or waits for its topic, 99 are delivered, uncharged, in order',
    async ({ code, topic, poison, options, waits }) => {
      const good = await topics.create(3);
      const bad = topic === undefined ? TestTopics.name() : await topics.create(1, topic);
      const rows: Partial<NewMessage>[] = Array.from({ length: NEIGHBOURS }, (_, n) => ({
        topic: good,
        key: `${good} ${n % KEYS}`,
        payload: Buffer.from(String(n)),
      }));
      rows.splice(50, 0, { topic: bad, key: `${good} poison`, ...poison });
      const ids = await harness.enqueue(rows);
      const { dispatcher, hooks } = harness.relay({
        default: await kafka({ client: kafkaConfig(), ...options }).create(),
      });
      running = dispatcher;
      await dispatcher.start();
      await hooks.until(waits === true ? 'retried' : 'dead');
      await until(async () => (await harness.count('ready')) === 0);
      const its = { id: ids[50], attempts: waits === true ? 0 : 1, error: expect.stringContaining(code) as string };
      expect(hooks.of('dead')).toMatchObject(waits === true ? [] : [its]);
      for (const retried of hooks.of('retried')) expect(waits && retried).toMatchObject(its);
      expect(hooks.of('circuitOpened')).toEqual([]);
      const records = (await topics.read(good, NEIGHBOURS)).map(
        ({ key, value }) => [String(key), Number(value)] as const,
      );
      for (let k = 0; k < KEYS; k += 1) {
        const seen = records.filter(([key]) => key === `${good} ${k}`).map(([, n]) => n);
        expect(new Set(seen).size).toBe(NEIGHBOURS / KEYS);
        const first = [...new Set(seen)];
        expect(first).toEqual([...first].sort((a, b) => a - b));
      }
    },
  );
});
