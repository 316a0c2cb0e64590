import { logLevel, type KafkaConfig } from 'kafkajs';
import type { OutboxMessage, OutboxTransport, PublishResult } from '../../../lib/index.js';
import { inProcess } from '../../../lib/transports/in-process/in-process.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish, type ProbeOptions } from '../../../lib/testing/transport-contract/publish-probe.js';
import { kafkaConfig, kafkaThrough, TestTopics } from '../../support/kafka.js';
import { KafkaRefusals } from '../../support/kafka-refusals.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

/** What is published when it goes on. */
const LONG = 60_000;

/** Kafka's code for a leader that has moved; kafkajs asks who it is now and sends again. */
const NOT_LEADER = 6;

/** Within the first of them it must come to where it stands still. A machine that is too slow for it gets the next. */
const TIMEOUTS = [1_500, 5_000, 30_000];
/** kafkajs waits for its retry for a part of it. */
const WITH_A_RETRY = TIMEOUTS.slice(1);

/** Nothing runs, no timer fires: a frozen process, as it sees itself. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** A publish in whose time the process stands still, once, until that is over. */
class LatePublish {
  /** @internal */ readonly opened: OutboxTransport[] = [];
  /** @internal */ begun = Infinity;
  /** Milliseconds after the publish began. @internal */
  stoodAfter: number | undefined;

  constructor(readonly timeout: number) {}

  /** Connected. */
  async open(made: OutboxTransport | Promise<OutboxTransport>): Promise<OutboxTransport> {
    const transport = await made;
    this.opened.push(transport);
    await transport.connect?.(AbortSignal.timeout(60_000));
    return transport;
  }
  readonly stand = (): void => {
    if (this.stoodAfter !== undefined) return;
    this.stoodAfter = performance.now() - this.begun;
    standStill(this.timeout + 100);
  };
  async publish(
    transport: OutboxTransport,
    messages: readonly OutboxMessage[],
    onReport?: ProbeOptions['onReport'],
  ): Promise<readonly PublishResult[]> {
    this.begun = performance.now();
    const { results } = await probePublish(transport, messages, {
      timeout: this.timeout,
      ...(onReport === undefined ? {} : { onReport }),
    });
    return results;
  }
  /** Else it was late before it stood still, and nothing was tried. */
  get wasInTime(): boolean {
    return this.stoodAfter !== undefined && this.stoodAfter < this.timeout;
  }
  async close(): Promise<void> {
    for (const transport of this.opened.splice(0)) await transport.close?.();
  }
}

/** What `run` expects holds where the process stood still in time. */
async function standingStill(
  run: (late: LatePublish) => Promise<void>,
  timeouts: readonly number[] = TIMEOUTS,
): Promise<void> {
  for (const timeout of timeouts) {
    const late = new LatePublish(timeout);
    const failure = await run(late)
      .then(
        () => undefined,
        (error: unknown) => ({ error }),
      )
      .finally(() => late.close());
    if (!late.wasInTime && timeout !== timeouts.at(-1)) continue;
    expect(late.wasInTime || failure !== undefined).toBe(true);
    if (failure !== undefined) throw failure.error;
    return;
  }
}

/**
 * What a process that stood still does first when it wakes up is to read what came meanwhile; its timers come after that.
 * The answer to one part of a batch must not set off the next part.
 */
describe('B1: a publish whose time passed while the process stood still', () => {
  const batch = (topic: string, count: number): OutboxMessage[] =>
    Array.from({ length: count }, (_, n) => contractMessage({ topic, key: `k${n}` }));

  async function standStillAtFirst(late: LatePublish, transport: OutboxTransport, topic: string): Promise<boolean[]> {
    const results = await late.publish(transport, batch(topic, 5), (index) => {
      if (index === 0) late.stand();
    });
    return results.map(({ ok }) => ok);
  }

  it('calls no other handler', () =>
    standingStill(async (late) => {
      const handlers = new InProcessHandlers();
      const called: string[] = [];
      const call = ({ key }: { readonly key: string | null }): number => called.push(String(key));
      handlers.add({ id: 'h', type: 'contract.tested', version: undefined, call });
      const transport = await late.open(inProcess({ concurrency: 1 }).create(handlers));
      expect(await standStillAtFirst(late, transport, 't')).toEqual([true, false, false, false, false]);
      expect(called).toEqual(['k0']);
    }));

  describeWith('rabbitmq', 'with RabbitMQ', () => {
    let observer: RabbitMqObserver;
    beforeAll(async () => {
      observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    });
    afterAll(() => observer.close());

    it('rabbitmq() sends nothing more', () =>
      standingStill(async (late) => {
        const queue = await observer.queue();
        const transport = await late.open(rabbitmq({ url: requiredUrl('rabbitmq'), maxUnconfirmed: 1 }).create());
        expect(await standStillAtFirst(late, transport, queue)).toEqual([true, false, false, false, false]);
        await transport.reset?.();
        const last = contractMessage({ topic: queue, payload: '"last"' });
        const { results } = await probePublish(transport, [last], { timeout: LONG });
        expect(results).toEqual([{ ok: true }]);
        await late.close();
        const seen = await observer.received(queue, 2);
        expect(seen).toHaveLength(2);
        expect(String(seen[1]?.content)).toContain('last');
      }));

    it('rabbitmq() sends nothing that amqplib had, but not yet its socket', () =>
      standingStill(async (late) => {
        const queue = await observer.queue();
        const transport = await late.open(rabbitmq({ url: requiredUrl('rabbitmq'), maxUnconfirmed: 1 }).create());
        // amqplib writes in an immediate, too: the next one.
        setImmediate(late.stand);
        const results = await late.publish(transport, [contractMessage({ topic: queue, payload: '"late"' })]);
        expect(results).toMatchObject([{ ok: false, blame: 'transport' }]);
        const next = contractMessage({ topic: queue, payload: '"next"' });
        expect((await probePublish(transport, [next], { timeout: LONG })).results).toEqual([{ ok: true }]);
        await late.close();
        const [first] = await observer.received(queue, 1);
        expect(String(first?.content)).toContain('next');
      }));
  });

  describeWith('kafka', 'with Kafka', () => {
    const topics = new TestTopics();
    beforeAll(() => topics.start());
    afterAll(() => topics.stop());

    it('kafka() sends no other request of the batch', () =>
      standingStill(async (late) => {
        const topic = await topics.create();
        const transport = await late.open(kafka({ client: kafkaConfig(), maxMessageBytes: 12_289 }).create());
        // One message per request. It stands still between the answer to the first and the second.
        Object.assign(transport, { noteReached: late.stand });
        const payload = 'x'.repeat(7_000);
        const messages = Array.from({ length: 4 }, () => contractMessage({ topic, key: null, payload }));
        const results = await late.publish(transport, messages);
        expect(results.map(({ ok }) => ok)).toEqual([true, false, false, false]);
        await late.close();
        expect(await topics.total(topic)).toBe(1);
      }));

    /** What stands still ends as late, and what comes next gets through. */
    const expectLate = async (late: LatePublish, transport: OutboxTransport, topic: string): Promise<void> => {
      const [result] = await late.publish(transport, [contractMessage({ topic, payload: '"late"' })]);
      expect(result).toMatchObject({ ok: false, blame: 'transport', error: { code: 'PUBLISH_TIMEOUT' } });
    };
    const expectNext = async (transport: OutboxTransport, topic: string): Promise<void> => {
      const next = contractMessage({ topic, payload: '"next"' });
      expect((await probePublish(transport, [next], { timeout: LONG })).results).toEqual([{ ok: true }]);
    };

    /** kafkajs tells its log of every step, as it takes it. */
    const telling = (config: KafkaConfig, onStep: (step: string) => void): KafkaConfig => ({
      ...config,
      logLevel: logLevel.DEBUG,
      logCreator: () => (entry) => onStep(entry.log.message),
    });

    it('kafka() sends no request when it stood still inside of kafkajs, between two requests', () =>
      standingStill(async (late) => {
        const topic = await topics.create();
        const transport = await late.open(
          kafka({ client: kafkaConfig(), partitioner: () => () => (late.stand(), 0) }).create(),
        );
        await expectLate(late, transport, topic);
        await expectNext(transport, topic);
        await late.close();
        expect(await topics.total(topic)).toBe(1);
      }));

    it('kafka() sends no request again when it stood still while kafkajs waited for its retry', () =>
      standingStill(async (late) => {
        const topic = await topics.create();
        const proxy = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
        const refusals = new KafkaRefusals();
        proxy.intercept = () => refusals.connection();
        const onStep = (step: string): void => {
          if (step.startsWith('Failed to send messages')) refusals.code = undefined;
          // When kafkajs has asked who leads now, it sets the timer of its retry, which is due before that of the deadline.
          if (refusals.refused > 0 && step.startsWith('Response Metadata')) setImmediate(late.stand);
        };
        try {
          const transport = await late.open(kafka({ client: telling(kafkaThrough(proxy), onStep) }).create());
          refusals.code = NOT_LEADER;
          await expectLate(late, transport, topic);
          expect(refusals.refused).toBe(1);
          await expectNext(transport, topic);
        } finally {
          await late.close();
          await proxy.close();
        }
        expect(await topics.total(topic)).toBe(1);
      }, WITH_A_RETRY));

    it('kafka() commits no transaction whose time has passed', () =>
      standingStill(async (late) => {
        const topic = await topics.create();
        let stored = false;
        const client = telling(kafkaConfig(), (step) => {
          stored ||= step.startsWith('Response Produce');
          // What is asked before the commit.
          if (stored && step.startsWith('Response GroupCoordinator')) late.stand();
        });
        const transport = await late.open(kafka({ client, transactional: true, producers: 1 }).create());
        await expectLate(late, transport, topic);
        expect(stored).toBe(true);
        await expectNext(transport, topic);
        await late.close();
        expect((await topics.read(topic, 1, { timeout: LONG })).map(({ value }) => String(value))).toEqual(['"next"']);
      }));
  });
});
