import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import type { OutboxTransport } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { TestTopics } from '../../support/kafka.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

/** kafkajs would go on asking, and hide what the broker said at first. */
const AT_ONCE = { retries: 1, initialRetryTime: 1, maxRetryTime: 1 };

/** Publishes one message after the other, and counts what becomes of them. */
class Prober {
  readonly charged: unknown[] = [];
  away = 0;
  stored = 0;
  private stopped = false;

  constructor(
    private readonly transport: OutboxTransport,
    private readonly topic: string,
  ) {}

  async run(): Promise<void> {
    while (!this.stopped) {
      const { results } = await probePublish(this.transport, [contractMessage({ topic: this.topic })], {
        timeout: 5_000,
      });
      for (const result of results) {
        if (result.ok) this.stored += 1;
        else if (result.blame === 'transport') this.away += 1;
        else this.charged.push(result);
        // The broker starts on the same machine.
        if (!result.ok) await pause(10);
      }
    }
    await this.transport.close?.();
  }
  stop(): void {
    this.stopped = true;
  }
}

/** With KRaft a broker takes connections when it knows its topics again. RabbitMQ does not wait for its queues: there we do. */
describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'a Kafka that is killed and started again', () => {
  let node: KafkaNode;
  const topics = new TestTopics(() => node.config());
  beforeAll(async () => {
    node = await KafkaNode.start();
    await topics.start();
  });
  afterAll(async () => {
    try {
      await topics.admin?.disconnect(); // the topics go with their broker
    } finally {
      await node?.stop();
    }
  });

  it('C16: calls no topic unknown that was there before: nobody is charged', async () => {
    const topic = await topics.create();
    const others = Array.from({ length: 50 }, () => ({ topic: TestTopics.name() }));
    await topics.admin.createTopics({ topics: others, waitForLeaders: false });
    const config = { ...node.config(), retry: AT_ONCE };
    const open: (() => Promise<OutboxTransport>)[] = [
      async () => kafka({ client: config, producer: { retry: AT_ONCE } }).create(),
      async () => kafka({ client: config, producer: { retry: AT_ONCE } }).create(),
    ];
    const probers = await Promise.all(open.map(async (create) => new Prober(await create(), topic)));
    const running = probers.map((prober) => prober.run());
    try {
      await until(() => probers.every(({ stored }) => stored > 0), 60_000);
      await node.kill();
      await until(() => probers.every(({ away }) => away > 0), 60_000);
      const before = probers.map(({ stored }) => stored);
      await node.restart();
      await until(() => probers.every(({ stored }, n) => stored > before[n]! + 20), 60_000);
    } finally {
      for (const prober of probers) prober.stop();
      await Promise.all(running);
    }
    expect(probers.flatMap(({ charged }) => charged)).toEqual([]);
  });
});
