import { randomBytes } from 'node:crypto';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import {
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
  type PlainMessage,
} from '../../lib/index.js';
import { kafka } from '../../lib/transports/kafka/index.js';
import { createTestDatabase, type TestDatabase } from './databases.js';
import { DebeziumSource } from './debezium.js';
import { kafkaConfig, TestTopics, type ReadRecord } from './kafka.js';
import { KafkaConnect } from './kafka-connect.js';
import type { DatabaseKind } from './services.js';

/** Three partitions, as a key of Debezium must go to the one to which `kafka()` sends it. */
const PARTITIONS = 3;

/** Who sends to a topic of a run. */
const WAYS = ['debezium.', 'relay.'] as const;
type Way = (typeof WAYS)[number];
const topicOf = (prefix: string, way: Way, name = 'orders'): string => `${prefix}${way}${name}`;

export type OrderMessage = Omit<PlainMessage, 'type' | 'topic'>;
export const order = (message: OrderMessage): PlainMessage => ({ type: 'order.placed', topic: 'orders', ...message });

/** An application whose relay is off, and a connector in its place. */
export class DebeziumRun {
  private relay: TestingModule | undefined;

  private constructor(
    readonly connect: KafkaConnect,
    private readonly topics: TestTopics,
    private readonly prefix: string,
    private readonly options: Partial<OutboxOptions>,
    readonly database: TestDatabase<DatabaseKind>,
    readonly source: DebeziumSource,
    readonly app: TestingModule,
  ) {}

  static async start(
    connect: KafkaConnect,
    { kind, server }: { kind: DatabaseKind; server: string },
    options: Partial<OutboxOptions>,
  ): Promise<DebeziumRun> {
    const prefix = `outbox-test-${randomBytes(6).toString('hex')}.`;
    const topics = new TestTopics();
    const [database] = await Promise.all([createTestDatabase(kind, server), topics.start()]);
    const [app] = await Promise.all([
      application(database, prefix, { relay: false, ...options }),
      ...WAYS.map((way) => topics.create(PARTITIONS, {}, topicOf(prefix, way))),
    ]);
    const source = await DebeziumSource.open(database, `${prefix}debezium.`);
    return new DebeziumRun(connect, topics, prefix, options, database, source, app);
  }

  get outbox(): OutboxService {
    return this.app.get(OutboxService);
  }
  get dataSource(): DataSource {
    return this.app.get(DataSource);
  }

  /** One transaction for all. */
  enqueue(...messages: OrderMessage[]): Promise<string[]> {
    return this.outbox.enqueueOutsideTransaction(messages.map(order));
  }

  /**
   * Makes the connector, or makes it again after Kafka Connect was started anew.
   * @param settings that differ from the page's; `undefined`: not set
   */
  async capture(settings: Readonly<Record<string, string | undefined>> = {}): Promise<void> {
    const { name, config } = this.source.connector;
    await this.connect.run({ name, config: { ...config, ...settings } });
  }

  private topic(way: Way, name?: string): string {
    return topicOf(this.prefix, way, name);
  }
  /** Where Debezium routes this topic of messages. */
  async createTopic(name: string): Promise<void> {
    await this.topics.create(1, {}, this.topic('debezium.', name));
  }
  /** What Debezium sent to the topic `orders`. */
  routed(count: number): Promise<ReadRecord[]> {
    return this.topics.read(this.topic('debezium.'), count);
  }
  /** Once what is routed is as many messages, whatever came twice. */
  async routedOnce(count: number): Promise<{ all: string[]; first: string[] }> {
    for (let least = count; ; least++) {
      const all = (await this.routed(least)).map(({ value }) => String(value));
      const first = [...new Set(all)];
      if (first.length >= count) return { all, first };
      least = all.length;
    }
  }
  countRouted(): Promise<number> {
    return this.topics.total(this.topic('debezium.'));
  }
  configureTopic(name: string, value: string): Promise<void> {
    return this.topics.configure(this.topic('debezium.'), name, value);
  }

  /** A relay publishes with `kafka()` what is in the tables; what arrived. */
  async relayed(count: number): Promise<ReadRecord[]> {
    const relay = await application(this.database, this.prefix, { relay: 'manual', ...this.options });
    try {
      await relay.get(OutboxDispatcher).drain();
    } finally {
      await relay.close();
    }
    return this.published(count);
  }
  /** Beside the connector, until the end. It has these transports of the application. */
  async startRelay(names: readonly string[]): Promise<OutboxService> {
    this.relay = await application(this.database, this.prefix, { relay: true, ...this.options }, names);
    return this.relay.get(OutboxService);
  }
  /** What relays sent to the topic `orders`. */
  published(count: number): Promise<ReadRecord[]> {
    return this.topics.read(this.topic('relay.'), count);
  }

  async stop(): Promise<void> {
    await Promise.all([
      this.relay?.close(),
      this.app.close(),
      this.connect.remove(this.source.connector.name).catch(() => undefined), // Kafka Connect may have been killed
    ]);
    await this.source.close();
    await this.database.drop();
    const made = [...(await this.topics.admin.listTopics())].filter((topic) =>
      topic.includes(this.source.connector.name),
    );
    if (made.length > 0) await this.topics.admin.deleteTopics({ topics: made });
    await this.topics.stop();
  }
}

/** A Kafka Connect for the tests of a file, and a run for each. Called where its hooks belong. */
export function useDebezium(
  kind: DatabaseKind,
  server: () => Promise<string>,
): (settings?: { options?: Partial<OutboxOptions>; capture?: boolean }) => Promise<DebeziumRun> {
  let connect: KafkaConnect;
  let url: string;
  let run: DebeziumRun | undefined;
  beforeAll(async () => {
    [connect, url] = await Promise.all([KafkaConnect.start(), server()]);
  }, 300_000); // the first time its jars are fetched
  afterEach(async () => {
    await run?.stop();
    run = undefined;
  });
  afterAll(() => connect.stop());
  return async ({ options = {}, capture = true } = {}) => {
    run = await DebeziumRun.start(connect, { kind, server: url }, options);
    if (capture) {
      await run.capture();
      await connect.isStreaming(run.source.connector.name);
    }
    return run;
  };
}

async function application(
  database: TestDatabase<DatabaseKind>,
  prefix: string,
  options: Partial<OutboxOptions>,
  transports: readonly string[] = ['default', 'second'],
): Promise<TestingModule> {
  const transport = kafka({ client: kafkaConfig(), topicPrefix: `${prefix}relay.` });
  const outbox = OutboxModule.forRoot({
    transports: Object.fromEntries(transports.map((name) => [name, transport])),
    database: { setup: 'create' },
    logLevel: 'silent',
    ...options,
  });
  const typeOrm = TypeOrmModule.forRoot({ ...(database.options as object), poolSize: 12, retryAttempts: 0 });
  const app = await Test.createTestingModule({ imports: [typeOrm, outbox] })
    .setLogger(false as never)
    .compile();
  return app.init();
}
