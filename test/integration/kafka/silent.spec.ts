import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { logLevel } from 'kafkajs';
import { kafka } from '../../../lib/transports/kafka/index.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { TestTopics } from '../../support/kafka.js';
import { describeUnlessMissing } from '../../support/services.js';

/** The default `publishTimeout`. */
const TIMEOUT = 10_000;

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'a Kafka server that says nothing', () => {
  let node: KafkaNode;
  let hole: Server;
  let silent: string;
  const asked = new Set<Socket>();
  const topics = new TestTopics(() => node.config());
  beforeAll(async () => {
    hole = createServer((socket) => asked.add(socket.on('error', () => undefined).resume()));
    await once(hole.listen(0, '127.0.0.1'), 'listening');
    silent = `127.0.0.1:${(hole.address() as AddressInfo).port}`;
    node = await KafkaNode.start();
    await topics.start();
  }, 90_000);
  afterAll(async () => {
    for (const socket of asked) socket.destroy();
    hole.close();
    await topics.stop();
    await node?.stop();
  });
  const transportTo = async (brokers: readonly string[]): Promise<OutboxTransport> =>
    (await kafka({
      client: { clientId: 'outbox-test', brokers: [...brokers], logLevel: logLevel.NOTHING },
    }).create()) as OutboxTransport;

  it('N3: is left for the next of `brokers` within one publish, and not asked again by the next producer', async () => {
    const topic = await topics.create();
    const [live] = node.config().brokers as string[];
    const transport = await transportTo([silent, live!]);
    const publish = () => probePublish(transport, [contractMessage({ topic })], { timeout: TIMEOUT });
    expect((await publish()).results).toEqual([{ ok: true }]);
    expect(asked.size).toBe(1);
    await transport.reset?.();
    expect((await publish()).results).toEqual([{ ok: true }]);
    expect(asked.size).toBe(1);
    await transport.close?.();
  }, 60_000);

  it('N3: is named where there is no other', async () => {
    const transport = await transportTo([silent]);
    const error: unknown = await transport.connect!(AbortSignal.timeout(TIMEOUT)).catch((reason: unknown) => reason);
    expect(String((error as { cause?: unknown }).cause)).toContain(`${silent} takes connections and answers nothing`);
    await transport.close?.();
  }, 60_000);
});
