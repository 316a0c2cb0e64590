import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientKafka, type ClientProxy, ClientRMQ } from '@nestjs/microservices';
import { logLevel } from 'kafkajs';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { TestTopics } from '../../support/kafka.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';
import { watch } from '../../support/watched.js';

beforeAll(() => Logger.overrideLogger(false));

/** A Nest client, two of its topics, and what health calls the one that takes nothing. */
interface Missing {
  readonly client: Pick<ClientProxy, 'connect' | 'emit' | 'close'>;
  readonly bad: string;
  readonly good?: string;
  readonly name: string;
  bring(): Promise<unknown>;
}

describeWith(['rabbitmq', 'kafka', 'postgres'], 'a destination that takes nothing, through a Nest client', () => {
  const topics = new TestTopics();
  let harness: Harness;
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    await topics.start();
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  beforeEach(async () => {
    harness = await createHarness('postgres', { retry: { maxAttempts: 1 }, pollInterval: 50 });
  });
  afterEach(() => harness?.close());
  afterAll(async () => {
    await observer.close();
    await topics.stop();
  });

  const rmq = (options: object): ClientRMQ =>
    new ClientRMQ({ urls: [requiredUrl('rabbitmq')], socketOptions: { reconnectTimeInSeconds: 1 }, ...options });
  const KINDS: readonly (readonly [what: string, make: () => Promise<Missing>])[] = [
    [
      'ClientRMQ: no queue is bound',
      async () => {
        const [exchange, good] = [await observer.exchange(), await observer.queue()];
        await observer.channel.bindQueue(good, exchange, 'good');
        return {
          client: rmq({ exchange, wildcards: true }),
          ...{ bad: 'bad', good: 'good', name: `exchange "${exchange}", routing key "bad"` },
          bring: () => observer.channel.bindQueue(good, exchange, 'bad'),
        };
      },
    ],
    [
      'ClientRMQ: a queue that is full and refuses',
      async () => {
        const [exchange, good] = [await observer.exchange(), await observer.queue()];
        const full = await observer.queue({ maxLength: 1, overflow: 'reject-publish' });
        await observer.channel.bindQueue(good, exchange, 'good');
        await observer.channel.bindQueue(full, exchange, 'bad');
        observer.channel.sendToQueue(full, Buffer.from('first'));
        await until(async () => (await observer.depth(full)) === 1);
        return {
          client: rmq({ exchange, wildcards: true }),
          ...{ bad: 'bad', good: 'good', name: `exchange "${exchange}", routing key "bad"` },
          bring: () => observer.channel.deleteQueue(full).then(() => observer.channel.bindQueue(good, exchange, 'bad')),
        };
      },
    ],
    [
      'ClientRMQ: the only queue of the client is not there',
      async () => {
        const queue = await observer.queue();
        await observer.channel.deleteQueue(queue);
        return {
          client: rmq({ queue, noAssert: true }),
          ...{ bad: 'bad', name: `queue "${queue}"` },
          bring: () => observer.channel.assertQueue(queue),
        };
      },
    ],
    [
      'ClientRMQ: the exchange of the client was deleted',
      async () => {
        const [exchange, queue] = [await observer.exchange(), await observer.queue()];
        // Nest's own setup would make it again at each connect.
        const client = rmq({ exchange, wildcards: true });
        Object.assign(client, { setupChannel: async (_: unknown, resolve: () => void) => resolve() });
        await observer.channel.deleteExchange(exchange);
        return {
          client,
          ...{ bad: 'bad', name: `exchange "${exchange}"` },
          bring: async () => {
            await observer.channel.assertExchange(exchange, 'topic');
            await observer.channel.bindQueue(queue, exchange, '#');
          },
        };
      },
    ],
    [
      'ClientKafka: no such topic',
      async () => {
        const [good, bad] = [await topics.create(), TestTopics.name()];
        const client = { brokers: requiredUrl('kafka').split(','), logLevel: logLevel.NOTHING };
        return {
          client: new ClientKafka({ client }),
          ...{ bad, good, name: `topic "${bad}"` },
          bring: () => topics.create(1, {}, bad),
        };
      },
    ],
  ];

  it.each(KINDS)(
    'X1: %s: nobody is charged, one message is tried now and then, and all arrive when it is there',
    async (_, make) => {
      const { client, bad, good, name, bring } = await make();
      const transport = await clientProxy({ client }).create();
      const batches = watch(transport);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      const enqueue = (topic: string, count: number) =>
        harness.enqueue(Array.from({ length: count }, (_each, n) => ({ topic, key: `${topic}${n % 20}` })));
      const published = (ids: readonly string[]): boolean => {
        const ok = new Set(batches.flatMap((batch) => batch.ids.filter((_each, n) => batch.results[n]?.ok === true)));
        return ids.every((id) => ok.has(id));
      };
      const missing = await enqueue(bad, 500);
      const others = good === undefined ? [] : await enqueue(good, 50);
      await dispatcher.start();
      await until(() => published(others), 60_000);
      await until(async () => (await harness.count('ready')) === 0, 60_000);
      const bads = new Set(missing);
      const tries = (): number => batches.flatMap((batch) => batch.ids).filter((id) => bads.has(id)).length;
      const before = tries();
      const late = await enqueue(bad, 200);
      for (const id of late) bads.add(id);
      const lateOthers = good === undefined ? [] : await enqueue(good, 50);
      await until(() => published(lateOthers), 60_000);
      await until(async () => (await harness.count('ready')) === 0, 60_000);
      // Now and then, by the clock: many times less than there are, on any machine.
      expect(tries() - before).toBeLessThan(50);
      expect(dispatcher.status().transports[0]).toMatchObject({ circuit: 'closed', away: [{ name }] });
      await bring();
      await until(() => published([...missing, ...late]), 60_000);
      await until(async () => (await harness.count('parked')) === 0);
      expect(hooks.of('dead')).toEqual([]);
      expect(hooks.of('circuitOpened')).toEqual([]);
      expect(hooks.of('destinationBack')).toMatchObject([{ destination: name }]);
    },
  );
});
