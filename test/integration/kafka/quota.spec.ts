import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientKafka } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import { TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { createHarness, type RecordedHooks } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

const CLIENT = 'over-its-quota';
/** Bytes a second. Kafka lets ten seconds of it pass at once, and waits for the rest. */
const QUOTA = 20_000;
const SIZE = 4_000;
/** Messages: the first ones are worth 26 seconds, so that they wait for longer than a publish may take. */
const [FIRST, SECOND] = [130, 60];
const KINDS = ['kafka()', 'ClientKafka'] as const;

/** What there is to say of one of them at the end. */
interface Seen {
  readonly total: number;
  readonly hooks: RecordedHooks;
  readonly told: readonly string[];
}

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'a client that sends more than its Kafka quota', () => {
  let node: KafkaNode;
  let topics: TestTopics;
  const opened: { close(): Promise<void> }[] = [];
  /** Both at once: each has a quota of its own, and waits for it most of the time. */
  const seen = new Map<string, Promise<Seen>>();
  beforeAll(async () => {
    node = await KafkaNode.start();
    topics = new TestTopics(() => node.config());
    await topics.start();
    for (const kind of KINDS) await node.limit(`${CLIENT}-${kind}`, QUOTA);
    for (const kind of KINDS) {
      const one = sendTwice(kind);
      one.catch(() => undefined); // its test tells
      seen.set(kind, one);
    }
  });
  afterAll(async () => {
    await Promise.allSettled(seen.values());
    for (const each of opened) await each.close();
    await topics?.stop();
    await node?.stop();
  });

  const transportOf = async (kind: (typeof KINDS)[number]): Promise<OutboxTransport> => {
    const client = { ...node.config(), clientId: `${CLIENT}-${kind}` };
    const { create } =
      kind === 'kafka()' ? kafka({ client }) : clientProxy({ client: new ClientKafka({ client, postfixId: '' }) });
    return create();
  };

  async function sendTwice(kind: (typeof KINDS)[number]): Promise<Seen> {
    const harness = await createHarness('postgres', { publishTimeout: 10_000, lease: 30_000, pollInterval: 100 });
    opened.push(harness); // with its relays
    const topic = await topics.create(3);
    const transport = await transportOf(kind);
    // To a broker that was just started: it connects, and learns all that takes long once.
    const early = await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 });
    expect(early.results).toEqual([{ ok: true }]);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    const told = new Set<string>();
    const payload = Buffer.alloc(SIZE, 'x');
    const send = (length: number) =>
      harness.enqueue(Array.from({ length }, (_, n) => ({ topic, key: `k${n % 7}`, payload })));
    const through = async (): Promise<boolean> => {
      const { state, detail = '' } = transport.health!();
      if (state === 'blocked') told.add(detail.replace(/\d+/, 'N'));
      const [transportRelay] = dispatcher.status().transports;
      if (transportRelay!.circuit === 'blocked') told.add('blocked');
      return (await harness.count('ready')) + (await harness.count('parked')) === 0;
    };
    await send(FIRST);
    await until(through, 120_000);
    await send(SECOND); // by now it is over
    await until(through, 120_000);
    return { total: await topics.total(topic), hooks, told: [...told].sort() };
  }

  it.each(KINDS)(
    'N7: %s waits as long as Kafka says, on its connection, which is no outage, and health says why',
    async (kind) => {
      const { total, hooks, told } = (await seen.get(kind)) as Seen;
      expect(total).toBeGreaterThanOrEqual(1 + FIRST + SECOND);
      expect(hooks.of('circuitOpened')).toEqual([]);
      expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
      // A client of Nest has sent many at once when it hears of its quota.
      const refused = hooks.of('failed').filter(({ blame }) => kind === 'kafka()' || blame !== 'collateral');
      expect(refused).toEqual([]);
      expect(told).toEqual([
        'Kafka throttles this client for N s more, as it sends more than its quota allows.',
        'blocked',
      ]);
    },
    240_000,
  );
});
