import { Logger } from '@nestjs/common';
import type { OutboxMessage, OutboxTransport, PublishResult } from '../../../lib/index.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import type { RabbitMqTransport } from '../../../lib/transports/rabbitmq/transport.js';
import { systemClock } from '../../../lib/time/clock.js';
import { contractMessage, probePublish, type ProbeOptions } from '../../support/publish.js';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing, serviceUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';

const missing: Service[] = RabbitMqNode.isInstalled ? [] : ['rabbitmq'];
if (serviceUrl('postgres') === undefined) missing.push('postgres');

describeUnlessMissing(missing, 'a queue that confirms nothing, as a quorum queue without its majority', () => {
  let node: RabbitMqNode;
  let observer: RabbitMqObserver;
  let harness: Harness;
  const suspended: string[] = [];
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    Logger.overrideLogger(false);
    [node, harness] = await Promise.all([
      RabbitMqNode.start(),
      createHarness('postgres', { retry: { maxAttempts: 1 } }),
    ]);
    observer = await RabbitMqObserver.connect(node.url);
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    for (const queue of suspended.splice(0)) await resume(queue);
    await Promise.all(opened.splice(0).map((transport) => transport.close?.()));
  });
  afterAll(async () => {
    await harness?.close();
    await observer?.connection.close();
    await node?.remove();
  });

  /** Its leader takes what it is sent, and commits nothing: what it does without a majority. */
  async function stuckQueue(before: (queue: string) => Promise<unknown> = async () => undefined): Promise<string> {
    const queue = await observer.queue({ arguments: { 'x-queue-type': 'quorum' } });
    await before(queue);
    await node.ctl('eval', `sys:suspend('%2F_${queue}').`);
    suspended.push(queue);
    return queue;
  }
  const resume = (queue: string): Promise<void> => node.ctl('eval', `sys:resume('%2F_${queue}').`);

  async function connected(options: Partial<RabbitMqOptions> = {}): Promise<OutboxTransport> {
    const transport = await rabbitmq({ url: node.url, ...options }).create();
    opened.push(transport);
    await transport.connect?.(AbortSignal.timeout(60_000));
    return transport;
  }
  const toAll = (topics: readonly string[]) => topics.map((topic, n) => contractMessage({ topic, key: `k${n}` }));
  const verdicts = (results: readonly PublishResult[]): unknown[] =>
    results.map((result) => (result.ok ? 'ok' : [result.blame, result.suspect, result.destination]));

  it('M1: is given up without the connection, not sent to again, and its late confirm counts', async () => {
    const transport = await connected();
    // Longer than the test may take: what ends by that ends the test.
    const publish = (batch: OutboxMessage[], onReport: ProbeOptions['onReport'] = () => undefined) =>
      probePublish(transport, batch, { timeout: 600_000, onReport });
    const [stuck, good] = [await stuckQueue((queue) => publish(toAll([queue]))), await observer.queue()];
    const states: string[] = [];
    await transport.connect?.(AbortSignal.timeout(60_000), (state) => states.push(state));
    const away = ['transport', 'destination', `queue "${stuck}"`];
    const batch = toAll([stuck, good, stuck, good]);
    // A destination's time passes once both good ones have answered, however long they take.
    const now = systemClock.monotonic();
    const clock = jest.spyOn(systemClock, 'monotonic').mockReturnValue(now);
    let told = 0;
    const first = await publish(batch, () => {
      told += 1;
      if (told === 2) clock.mockReturnValue(now + 3_000);
    });
    expect(verdicts(first.results)).toEqual([away, 'ok', away, 'ok']);
    const again = await publish([batch[0]!, ...toAll([good, stuck])]);
    expect(verdicts(again.results)).toEqual([away, 'ok', away]);
    await resume(stuck);
    suspended.pop();
    await until(async () => (await observer.depth(stuck)) === 3);
    const later = await publish([batch[0]!, batch[2]!, ...toAll([stuck])]);
    expect(verdicts(later.results)).toEqual(['ok', 'ok', 'ok']);
    await until(async () => (await observer.depth(stuck)) === 4); // the two were not sent a second time
    expect(states).toEqual([]);
  });

  it('M1: stops the channel with the first message to it: the connection goes once, then it is asked over another one', async () => {
    const [stuck, good, more] = [await stuckQueue(), await observer.queue(), await observer.queue()];
    const transport = await connected();
    const { silence } = transport as RabbitMqTransport;
    // The stuck one is asked first, and has its two seconds; from then on the others have half a minute.
    const onReport = (index: number): void => {
      if (index === 0 && asked) silence.patience = 30_000;
    };
    let asked = false;
    const publish = (timeout: number) => probePublish(transport, toAll([stuck, good, more]), { timeout, onReport });
    const lost = ['transport', undefined, undefined];
    expect(verdicts((await publish(4_000)).results)).toEqual([lost, lost, lost]);
    expect(transport.health?.()).toMatchObject({ up: false });
    asked = true;
    const away = ['transport', 'destination', `queue "${stuck}"`];
    for (let n = 0; n < 3; n += 1) expect(verdicts((await publish(60_000)).results)).toEqual([away, 'ok', 'ok']);
    expect(transport.health?.()).toMatchObject({ up: true });
  });

  it('M1: at the default publish timeout the others go on, nobody is charged, and it is named', async () => {
    const transport = await connected();
    const before = (queue: string) => probePublish(transport, toAll([queue]), { timeout: 60_000 });
    const [stuck, good] = [await stuckQueue(before), await observer.queue()];
    await observer.consume(good);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    const bad: string[] = [];
    try {
      // More than there are batches in flight, each in a transaction of its own, and the others beside them.
      for (let tick = 0; tick < 30; tick += 1) {
        bad.push(...(await harness.enqueue([{ topic: stuck, key: `b${tick}` }])));
        const goods = Array.from({ length: 5 }, (_, n) => ({ topic: good, key: `g${n}` }));
        await observer.receivedAll(good, await harness.enqueue(goods));
      }
      // Where one of them stops the others, the connection ends with its publish.
      await hooks.until('destinationAway');
      expect(hooks.of('circuitOpened')).toEqual([]);
      const [transportRelay] = dispatcher.status().transports;
      expect(transportRelay?.away).toEqual([expect.objectContaining({ name: `queue "${stuck}"` })]);
      await resume(suspended.pop()!);
      await observer.receivedAll(stuck, bad);
      expect(hooks.of('dead')).toEqual([]);
      expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
    } finally {
      await dispatcher.stop();
    }
  });
});
