import { type Consumer, Kafka, type KafkaMessage, logLevel } from 'kafkajs';

/** Somebody else's consumer: it knows Kafka, and nothing of the outbox. */
export class Ledger {
  /** What was left of each item after each reservation, in the order of arrival. */
  readonly left = new Map<string, number[]>();
  /** Messages come at least once; this is how a consumer sees each of them once. */
  private readonly ids = new Set<string>();
  private readonly kafka: Kafka;
  private readonly consumer: Consumer;

  constructor(
    brokers: string[],
    private readonly topic: string,
  ) {
    this.kafka = new Kafka({ clientId: 'ledger', brokers, logLevel: logLevel.NOTHING });
    this.consumer = this.kafka.consumer({ groupId: `${topic}-ledger` });
  }

  get count(): number {
    return this.ids.size;
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
    await this.consumer.run({ eachMessage: async ({ message }) => this.note(message) });
  }

  async stop(): Promise<void> {
    await this.consumer.disconnect();
    const admin = this.kafka.admin();
    await admin.connect();
    await admin.deleteGroups([`${this.topic}-ledger`]);
    await admin.deleteTopics({ topics: [this.topic] });
    await admin.disconnect();
  }

  private note({ value, headers = {} }: KafkaMessage): void {
    const id = String(headers['id']);
    if (this.ids.has(id)) return;
    this.ids.add(id);
    const { item, left } = JSON.parse(String(value)) as { item: string; left: number };
    this.left.set(item, [...(this.left.get(item) ?? []), left]);
  }
}
