import { Kafka, logLevel, type KafkaConfig } from 'kafkajs';
import type { OutboxTransport } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { TestTopics } from '../../support/kafka.js';
import { describeUnlessMissing } from '../../support/services.js';
import { silentServer, type SilentServer } from '../../support/silent-server.js';
import { until } from '../../support/until.js';

const REFUSED = '127.0.0.1:1';

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'a Kafka server that says nothing', () => {
  let node: KafkaNode;
  let live: string;
  let hole: SilentServer;
  let silent: string;
  const opened: OutboxTransport[] = [];
  const topics = new TestTopics(() => node.config());
  beforeAll(async () => {
    node = await KafkaNode.start();
    [live] = node.config().brokers as [string];
    await topics.start();
  });
  beforeEach(async () => {
    hole = await silentServer();
    silent = hole.address;
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((transport) => transport.close?.()));
    hole.close();
  });
  afterAll(async () => {
    await topics.stop();
    await node?.stop();
  });
  const configOf = (brokers: KafkaConfig['brokers']): KafkaConfig => ({
    clientId: 'outbox-test',
    brokers,
    logLevel: logLevel.NOTHING,
  });
  async function transportTo(client: KafkaConfig | Kafka): Promise<OutboxTransport> {
    const transport = (await kafka({ client }).create()) as OutboxTransport;
    opened.push(transport);
    return transport;
  }
  const errorOf = (transport: OutboxTransport, signal: AbortSignal): Promise<Error> =>
    transport.connect!(signal).then(
      () => new Error('It connected.'),
      (error: Error) => error.cause as Error,
    );
  /** A connection is taken in the turn after it was made. */
  async function isAsked({ taken }: SilentServer): Promise<boolean> {
    for (let turn = 0; turn < 2; turn += 1) await new Promise(setImmediate);
    return taken.length > 0;
  }

  it('N3: is left for the next of `brokers` within one publish, and not asked again by the next producer', async () => {
    const topic = await topics.create();
    const transport = await transportTo(configOf([silent, live]));
    const publish = () => probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 });
    expect((await publish()).results).toEqual([{ ok: true }]);
    expect(hole.taken.length).toBe(1);
    await transport.reset?.();
    expect((await publish()).results).toEqual([{ ok: true }]);
    expect(hole.taken.length).toBe(1);
  });

  it.each<[string, (brokers: string[]) => KafkaConfig | Kafka]>([
    ['`brokers`', (brokers) => configOf(brokers)],
    ['a function of them', (brokers) => configOf(async () => [...brokers])],
    ['a Kafka object', (brokers) => new Kafka(configOf(brokers))],
  ])('N3: is left with %s, though each publish ends after 500 ms', async (_, client) => {
    const topic = await topics.create();
    const transport = await transportTo(client([REFUSED, silent, live]));
    const publish = (within: number) => probePublish(transport, [contractMessage({ topic })], { timeout: within });
    // On a slow machine one may end before it asked anybody.
    do expect((await publish(500)).results).toMatchObject([{ ok: false, blame: 'transport' }]);
    while (!(await isAsked(hole)));
    const asked = hole.taken.length;
    expect((await publish(60_000)).results).toEqual([{ ok: true }]);
    expect(hole.taken.length).toBe(asked);
  });

  it('N3: is asked again when the others are away', async () => {
    const second = await silentServer();
    const transport = await transportTo(configOf([silent, second.address]));
    const asked = (): number => hole.taken.length + second.taken.length;
    /** An attempt to connect that ends as soon as this is so. */
    const giveUpOnce = async (holds: () => boolean): Promise<void> => {
      const attempt = new AbortController();
      const ended = errorOf(transport, attempt.signal);
      await until(holds).finally(() => attempt.abort());
      await ended;
    };
    for (let n = 1; n <= 4; n += 1) await giveUpOnce(() => asked() >= n);
    expect([hole.taken.length, second.taken.length]).toEqual([2, 2]);
    second.close();
    await giveUpOnce(() => hole.taken.length > 2);
  });

  it.each([
    [500, 'has not answered'],
    [6_000, 'takes connections and answers nothing'],
  ])('N3: is named where there is no other, also when it has %d ms', async (timeout, said) => {
    const transport = await transportTo(configOf([silent]));
    let error: Error;
    do error = await errorOf(transport, AbortSignal.timeout(timeout));
    while (!(await isAsked(hole)));
    expect(error.message).toContain(`${silent} ${said}`);
  });
});
