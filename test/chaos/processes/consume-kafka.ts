import { setTimeout as pause } from 'node:timers/promises';
import { Kafka, logLevel, type Consumer } from 'kafkajs';
import { SEASONAL } from '../settings.js';
import type { Sight, Visitor } from './consumer-process.js';

/** Milliseconds in which a topic that nobody writes to must be read to its end. */
const READ_OUT = 3_000;

/** Of some topics, by offset: whatever the group does after a fault, each record is seen once and in order. */
class Reader {
  private readonly next = new Map<string, number>();

  private constructor(private readonly consumer: Consumer) {}

  /** @param topics by the number of their transport; they are read from their beginning */
  static async start(
    kafka: Kafka,
    groupId: string,
    topics: ReadonlyMap<string, number>,
    sight: Sight,
  ): Promise<Reader> {
    const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100, sessionTimeout: 30_000 });
    const reader = new Reader(consumer);
    await consumer.connect();
    await consumer.subscribe({ topics: [...topics.keys()], fromBeginning: true });
    const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
    await consumer.run({
      autoCommitInterval: 1_000,
      eachBatch: async ({ batch: { topic, partition, messages } }) => {
        for (const { offset, value, headers, timestamp } of messages) {
          if (Number(offset) < reader.reached(topic, partition)) continue;
          reader.next.set(`${topic}/${partition}`, Number(offset) + 1);
          sight(topics.get(topic) as number, Number(headers?.['run']), false, value, Number(timestamp));
        }
      },
    });
    await joined;
    return reader;
  }

  /** Offset of the record that comes next. */
  reached(topic: string, partition: number): number {
    return this.next.get(`${topic}/${partition}`) ?? 0;
  }

  stop(): Promise<void> {
    return this.consumer.disconnect();
  }
}

/**
 * Two topics for each transport: one that stays, and one that comes and goes, which has a reader of its own each time. Sightings may
 * be late, sometimes by half a minute, so that the time that counts is the broker's.
 */
export async function consume(url: string, transports: readonly string[], sight: Sight): Promise<Visitor> {
  const kafka = new Kafka({
    clientId: 'chaos-consumer',
    brokers: [url],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 10_000, restartOnFailure: async () => true },
  });
  const orders = new Map(transports.map((name, index) => [`${name}.orders`, index]));
  const visits = new Visits(kafka, transports, sight);
  await Promise.all([
    Reader.start(kafka, 'chaos', orders, sight),
    ...transports.map((_, transport) => visits.join(transport)),
  ]);
  return visits;
}

class Visits implements Visitor {
  private readonly readers = new Map<number, Promise<Reader>>();
  private groups = 0;

  constructor(
    private readonly kafka: Kafka,
    private readonly transports: readonly string[],
    private readonly sight: Sight,
  ) {}

  async join(transport: number): Promise<void> {
    if (!this.readers.has(transport)) {
      const topics = new Map([[this.topicOf(transport), transport]]);
      const group = `chaos-${SEASONAL}-${(this.groups += 1)}`;
      this.readers.set(transport, Reader.start(this.kafka, group, topics, this.sight));
    }
    await this.readers.get(transport);
  }

  async leave(transport: number): Promise<boolean> {
    const reader = await this.readers.get(transport);
    if (reader === undefined) return true;
    if (!(await this.isReadOut(reader, this.topicOf(transport)))) return false;
    this.readers.delete(transport);
    await reader.stop();
    return true;
  }

  private topicOf(transport: number): string {
    return `${this.transports[transport]}.${SEASONAL}`;
  }

  /** Twice, as what is appended last may not be visible yet. */
  private async isReadOut(reader: Reader, topic: string): Promise<boolean> {
    const admin = this.kafka.admin();
    await admin.connect();
    try {
      let times = 0;
      for (const deadline = performance.now() + READ_OUT; times < 2 && performance.now() < deadline; await pause(200)) {
        const ends = await admin.fetchTopicOffsets(topic);
        const isRead = ends.every(({ partition, high }) => reader.reached(topic, partition) >= Number(high));
        times = isRead ? times + 1 : 0;
      }
      return times >= 2;
    } finally {
      await admin.disconnect();
    }
  }
}
