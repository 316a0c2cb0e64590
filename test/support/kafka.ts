import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { Kafka, logLevel, type Admin, type ISocketFactory, type KafkaConfig, type KafkaMessage } from 'kafkajs';
import type { OutboxMessage, OutboxTransport } from '../../lib/index.js';
import { kafka, type KafkaOptions } from '../../lib/transports/kafka/index.js';
import { contractMessage, type ContractMessageFields } from './publish.js';
import type { TcpProxy } from './tcp-proxy.js';
import { requiredUrl } from './services.js';

/** `ConfigResourceTypes.TOPIC`, which kafkajs exports by a loop that Node's ES modules do not see. */
const TOPIC = 2;

export type ReadRecord = KafkaMessage & { readonly partition: number };

export function kafkaConfig(): KafkaConfig {
  return { clientId: 'outbox-test', brokers: requiredUrl('kafka').split(','), logLevel: logLevel.NOTHING };
}

/** The same cluster through a proxy: the broker's own address leads around it, so every connect is redirected. */
export function kafkaThrough(proxy: Pick<TcpProxy, 'host' | 'port'>): KafkaConfig {
  const socketFactory: ISocketFactory = ({ onConnect }): Socket => {
    const socket = connect({ host: proxy.host, port: proxy.port }, onConnect);
    socket.setNoDelay(true);
    return socket;
  };
  return { ...kafkaConfig(), socketFactory };
}

/** Topics of one test file, made and deleted by an admin client of its own, and an independent consumer for them. */
export class TestTopics {
  private kafka!: Kafka;
  admin!: Admin;
  private readonly topics: string[] = [];

  constructor(private readonly config: () => KafkaConfig = kafkaConfig) {}

  async start(): Promise<void> {
    this.kafka = new Kafka(this.config());
    this.admin = this.kafka.admin();
    await this.admin.connect();
  }

  async create(
    numPartitions = 1,
    config: Record<string, string> = {},
    topic: string = TestTopics.name(),
  ): Promise<string> {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
    await this.admin.createTopics({ topics: [{ topic, numPartitions, configEntries }], waitForLeaders: false });
    this.topics.push(topic);
    await this.led(topic, numPartitions);
    return topic;
  }

  static name(): string {
    return `outbox-test-${randomBytes(6).toString('hex')}`;
  }

  async exists(topic: string): Promise<boolean> {
    return (await this.admin.listTopics()).includes(topic);
  }

  async remove(topic: string): Promise<void> {
    await this.admin.deleteTopics({ topics: [topic] });
    this.topics.splice(this.topics.indexOf(topic), 1);
    await eventually('the broker has forgotten the topic', async () => !(await this.exists(topic)));
  }

  async configure(topic: string, name: string, value: string): Promise<void> {
    const resources = [{ type: TOPIC, name: topic, configEntries: [{ name, value }] }];
    await this.admin.alterConfigs({ validateOnly: false, resources });
  }

  async addPartitions(topic: string, count: number): Promise<void> {
    await this.admin.createPartitions({ topicPartitions: [{ topic, count }] });
    await this.led(topic, count);
  }

  /**
   * The controller answers before the broker knows, and the broker names a leader before that has its log: kafkajs' own
   * `waitForLeaders` fails when it asks too early, and so does whoever asks for offsets.
   */
  private async led(topic: string, partitions: number): Promise<void> {
    await eventually('every partition has a leader', async () => {
      const found = await this.admin.fetchTopicMetadata({ topics: [topic] }).catch(() => undefined);
      const known = found?.topics[0]?.partitions ?? [];
      return known.length === partitions && known.every(({ leader }) => leader >= 0);
    });
    await eventually('every leader has its log', async () => {
      return (await this.offsets(topic).catch(() => [])).length === partitions;
    });
  }

  /** How many offsets each partition has given out; transaction markers count too. */
  async offsets(topic: string): Promise<number[]> {
    const found = await this.admin.fetchTopicOffsets(topic);
    return found.sort((a, b) => a.partition - b.partition).map(({ high }) => Number(high));
  }

  async total(topic: string): Promise<number> {
    return (await this.offsets(topic)).reduce((sum, n) => sum + n, 0);
  }

  /** Reads from the start until `count` records came and the ends that stood when it began were reached. */
  async read(topic: string, count: number, { readUncommitted = false, timeout = 60_000 } = {}): Promise<ReadRecord[]> {
    const groupId = `${topic}-${randomBytes(4).toString('hex')}`;
    const consumer = this.kafka.consumer({ groupId, readUncommitted, maxWaitTimeInMs: 50, sessionTimeout: 10_000 });
    const ends = await this.offsets(topic);
    const records: ReadRecord[] = [];
    const positions = ends.map(() => 0);
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`read ${records.length} of ${count} records`)), timeout);
        const done = (): void => {
          if (records.length < count || positions.some((position, p) => position < ends[p]!)) return;
          clearTimeout(timer);
          resolve();
        };
        done();
        consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
          positions[payload.partition] = Number(payload.lastOffset) + 1;
          done();
        });
        const eachMessage = async ({
          partition,
          message,
        }: {
          partition: number;
          message: KafkaMessage;
        }): Promise<void> => {
          records.push({ ...message, partition });
        };
        consumer.run({ eachMessage }).catch(reject);
      });
    } finally {
      await consumer.disconnect();
      await this.admin.deleteGroups([groupId]).catch(() => undefined);
    }
    return records;
  }

  async stop(): Promise<void> {
    if (this.topics.length > 0) await this.admin.deleteTopics({ topics: this.topics.splice(0) });
    await this.admin.disconnect();
  }
}

export function messages(
  topic: string,
  count: number,
  fields: (n: number) => Omit<ContractMessageFields, 'topic'> = () => ({}),
): OutboxMessage[] {
  return Array.from({ length: count }, (_, n) =>
    contractMessage({ topic, key: `key-${n}`, payload: `{"n":${n}}`, ...fields(n) }),
  );
}

/** Polls until the condition holds; a wait with a deadline instead of a sleep. */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeout = 60_000,
): Promise<void> {
  const end = Date.now() + timeout;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export const text = (value: unknown): unknown =>
  value === null || value === undefined ? value : Buffer.from(value as Buffer).toString();

/** Transports that are closed after each test of a file, and its topics. */
export function kafkaTransports() {
  const topics = new TestTopics();
  const opened: OutboxTransport[] = [];
  const open = async (options: Partial<KafkaOptions> = {}) => {
    const transport = await kafka({ client: kafkaConfig(), ...options }).create();
    opened.push(transport);
    return transport;
  };
  beforeAll(() => topics.start());
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((transport) => transport.close!()));
  });
  afterAll(() => topics.stop());
  return { topics, open };
}
