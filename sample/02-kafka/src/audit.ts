import { type Consumer, Kafka, type KafkaMessage, logLevel } from 'kafkajs';

export interface Seen {
  readonly partition: number;
  readonly key: string;
  readonly type: string;
  readonly branch: string | undefined;
  /** `null`: a tombstone. */
  readonly value: unknown;
}

/** Somebody else's consumer: it knows Kafka, and nothing of the outbox. */
export class Audit {
  readonly seen: Seen[] = [];
  /** Messages come at least once; this is how a consumer sees each of them once. */
  private readonly ids = new Set<string>();
  private readonly kafka: Kafka;
  private readonly consumer: Consumer;

  constructor(
    brokers: string[],
    private readonly topic: string,
  ) {
    this.kafka = new Kafka({ clientId: 'audit', brokers, logLevel: logLevel.NOTHING });
    this.consumer = this.kafka.consumer({ groupId: `${topic}-audit` });
  }

  async start(): Promise<void> {
    const admin = this.kafka.admin();
    await admin.connect();
    await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic: this.topic, numPartitions: 3, replicationFactor: 1 }],
    });
    await admin.disconnect();
    await this.consumer.connect();
    await this.consumer.subscribe({ topic: this.topic, fromBeginning: true });
    await this.consumer.run({ eachMessage: async ({ partition, message }) => this.note(partition, message) });
  }

  async stop(): Promise<void> {
    await this.consumer.disconnect();
    const admin = this.kafka.admin();
    await admin.connect();
    await admin.deleteGroups([`${this.topic}-audit`]);
    await admin.deleteTopics({ topics: [this.topic] });
    await admin.disconnect();
  }

  private note(partition: number, { key, value, headers = {} }: KafkaMessage): void {
    const id = String(headers['id']);
    if (this.ids.has(id)) return;
    this.ids.add(id);
    this.seen.push({
      partition,
      key: String(key),
      type: String(headers['type']),
      branch: headers['x-branch']?.toString(),
      value: value === null ? null : JSON.parse(value.toString()),
    });
  }
}
