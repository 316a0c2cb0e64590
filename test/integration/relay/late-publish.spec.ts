import { ClientKafka, ClientRMQ } from '@nestjs/microservices';
import { logLevel, type ICustomPartitioner, type KafkaConfig } from 'kafkajs';
import type { OutboxMessage } from '../../../lib/outbox-message.js';
import { inProcess } from '../../../lib/transports/in-process/in-process.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import type { OutboxTransport, PublishResult } from '../../../lib/transports/transport.js';
import { clientProxy } from '../../../lib/transports/nest-client/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { kafkaConfig, kafkaThrough, TestTopics } from '../../support/kafka.js';
import { KafkaRefusals } from '../../support/kafka-refusals.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

/** Within it the first answer must come. */
const TIMEOUT = 5_000;
/** What is published when it goes on. */
const LONG = 60_000;

/** Kafka's code for a leader that has moved; kafkajs asks who it is now and sends again. */
const NOT_LEADER = 6;

/** Nothing runs, no timer fires: a frozen process, as it sees itself. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * What a process that stood still does first when it wakes up is to read what came meanwhile; its timers come after that.
 * The answer to one part of a batch must not set off the next part.
 */
describe('B1: a publish whose time passed while the process stood still', () => {
  const batch = (topic: string, count: number): OutboxMessage[] =>
    Array.from({ length: count }, (_, n) => contractMessage({ topic, key: `k${n}` }));

  async function standStillAtFirst(transport: OutboxTransport, topic: string): Promise<boolean[]> {
    await transport.connect?.(AbortSignal.timeout(60_000));
    const onReport = (index: number): void => (index === 0 ? standStill(TIMEOUT + 100) : undefined);
    const { results } = await probePublish(transport, batch(topic, 5), { timeout: TIMEOUT, onReport });
    return results.map(({ ok }) => ok);
  }

  it('calls no other handler', async () => {
    const handlers = new InProcessHandlers();
    const called: string[] = [];
    handlers.add({ id: 'h', type: 'contract.tested', version: undefined, call: ({ key }) => called.push(String(key)) });
    const transport = await inProcess({ concurrency: 1 }).create(handlers);
    expect(await standStillAtFirst(transport, 't')).toEqual([true, false, false, false, false]);
    expect(called).toEqual(['k0']);
  });

  describeWith('rabbitmq', 'with RabbitMQ', () => {
    let observer: RabbitMqObserver;
    beforeAll(async () => {
      observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    });
    afterAll(() => observer.close());

    const TRANSPORTS: [string, (queue: string) => OutboxTransport | Promise<OutboxTransport>][] = [
      ['rabbitmq()', () => rabbitmq({ url: requiredUrl('rabbitmq'), maxUnconfirmed: 1 }).create()],
      [
        'clientProxy()',
        (queue) =>
          clientProxy({
            client: new ClientRMQ({
              urls: [requiredUrl('rabbitmq')],
              queue,
              queueOptions: { durable: true },
            }),
            concurrency: 1,
          }).create(),
      ],
    ];

    it.each(TRANSPORTS)('%s sends nothing more', async (_name, create) => {
      const queue = await observer.queue();
      const transport = await create(queue);
      expect(await standStillAtFirst(transport, queue)).toEqual([true, false, false, false, false]);
      await transport.reset?.();
      const last = contractMessage({ topic: queue, payload: '"last"' });
      const { results } = await probePublish(transport, [last], { timeout: LONG });
      expect(results).toEqual([{ ok: true }]);
      await transport.close?.();
      const seen = await observer.received(queue, 2);
      expect(seen).toHaveLength(2);
      expect(String(seen[1]?.content)).toContain('last');
    });

    it.each(TRANSPORTS)('%s sends nothing that amqplib had, but not yet its socket', async (_name, create) => {
      const queue = await observer.queue();
      const transport = await create(queue);
      await transport.connect?.(AbortSignal.timeout(60_000));
      // amqplib writes in an immediate, too: the next one.
      setImmediate(standStill, TIMEOUT + 100);
      const late = contractMessage({ topic: queue, payload: '"late"' });
      const { results } = await probePublish(transport, [late], { timeout: TIMEOUT });
      expect(results).toMatchObject([{ ok: false, blame: 'transport' }]);
      const next = contractMessage({ topic: queue, payload: '"next"' });
      expect((await probePublish(transport, [next], { timeout: LONG })).results).toEqual([{ ok: true }]);
      await transport.close?.();
      const [first] = await observer.received(queue, 1);
      expect(String(first?.content)).toContain('next');
    });
  });

  describeWith('kafka', 'with Kafka', () => {
    const topics = new TestTopics();
    beforeAll(() => topics.start());
    afterAll(() => topics.stop());

    it('kafka() sends no other request of the batch', async () => {
      const topic = await topics.create();
      const transport = await kafka({ client: kafkaConfig(), maxMessageBytes: 12_289 }).create();
      await transport.connect?.(AbortSignal.timeout(60_000));
      // One message per request. It stands still between the answer to the first and the second.
      Object.assign(transport, { noteReached: () => standStill(TIMEOUT + 100) });
      const payload = 'x'.repeat(7_000);
      const messages = Array.from({ length: 4 }, () => contractMessage({ topic, key: null, payload }));
      const { results } = await probePublish(transport, messages, { timeout: TIMEOUT });
      expect(results.map(({ ok }) => ok)).toEqual([true, false, false, false]);
      await transport.close?.();
      expect(await topics.total(topic)).toBe(1);
    });

    const publishOne = async (transport: OutboxTransport, topic: string, payload: string): Promise<PublishResult> => {
      const message = contractMessage({ topic, payload });
      const timeout = payload === '"late"' ? TIMEOUT : LONG;
      return (await probePublish(transport, [message], { timeout })).results[0]!;
    };
    const LATE = { ok: false, blame: 'transport', error: { code: 'PUBLISH_TIMEOUT' } };
    /** Stands still once, when it is called. */
    const once = (): (() => void) => {
      let stood = false;
      return () => {
        if (!stood) standStill(TIMEOUT + 100);
        stood = true;
      };
    };

    /** kafkajs tells its log of every step, as it takes it. */
    const telling = (config: KafkaConfig, onStep: (step: string) => void): KafkaConfig => ({
      ...config,
      logLevel: logLevel.DEBUG,
      logCreator: () => (entry) => onStep(entry.log.message),
    });

    it.each<[string, (partitioner: ICustomPartitioner) => OutboxTransport | Promise<OutboxTransport>]>([
      ['kafka()', (partitioner) => kafka({ client: kafkaConfig(), partitioner }).create()],
      [
        'clientProxy()',
        (createPartitioner) => {
          const options = { client: kafkaConfig(), producerOnlyMode: true, producer: { createPartitioner } };
          return clientProxy({ client: new ClientKafka(options) }).create();
        },
      ],
    ])('%s sends no request when it stood still inside of kafkajs, between two requests', async (_name, create) => {
      const topic = await topics.create();
      const stand = once();
      const transport = await create(() => () => (stand(), 0));
      await transport.connect?.(AbortSignal.timeout(60_000));
      expect(await publishOne(transport, topic, '"late"')).toMatchObject(LATE);
      expect(await publishOne(transport, topic, '"next"')).toEqual({ ok: true });
      await transport.close?.();
      expect(await topics.total(topic)).toBe(1);
    });

    it('kafka() sends no request again when it stood still while kafkajs waited for its retry', async () => {
      const topic = await topics.create();
      const proxy = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
      const refusals = new KafkaRefusals();
      proxy.intercept = () => refusals.connection();
      const stand = once();
      const onStep = (step: string): void => {
        if (step.startsWith('Failed to send messages')) refusals.code = undefined;
        // When kafkajs has asked who leads now, it sets the timer of its retry, which is due before that of the deadline.
        if (refusals.refused > 0 && step.startsWith('Response Metadata')) setImmediate(stand);
      };
      const transport = await kafka({ client: telling(kafkaThrough(proxy), onStep) }).create();
      await transport.connect?.(AbortSignal.timeout(60_000));
      refusals.code = NOT_LEADER;
      expect(await publishOne(transport, topic, '"late"')).toMatchObject(LATE);
      expect(refusals.refused).toBe(1);
      expect(await publishOne(transport, topic, '"next"')).toEqual({ ok: true });
      await transport.close?.();
      await proxy.close();
      expect(await topics.total(topic)).toBe(1);
    });

    it('kafka() commits no transaction whose time has passed', async () => {
      const topic = await topics.create();
      const stand = once();
      let stored = false;
      const client = telling(kafkaConfig(), (step) => {
        stored ||= step.startsWith('Response Produce');
        // What is asked before the commit.
        if (stored && step.startsWith('Response GroupCoordinator')) stand();
      });
      const transport = await kafka({ client, transactional: true, producers: 1 }).create();
      await transport.connect?.(AbortSignal.timeout(60_000));
      expect(await publishOne(transport, topic, '"late"')).toMatchObject(LATE);
      expect(stored).toBe(true);
      expect(await publishOne(transport, topic, '"next"')).toEqual({ ok: true });
      await transport.close?.();
      expect((await topics.read(topic, 1, { timeout: LONG })).map(({ value }) => String(value))).toEqual(['"next"']);
    });
  });
});
