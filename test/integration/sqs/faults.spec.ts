import type { OutboxTransport } from '../../../lib/index.js';
import { sqs, type SqsOptions } from '../../../lib/transports/sqs/index.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { configFor, SqsObserver } from '../../support/sqs.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

interface Server {
  readonly url: string;
  restart(): Promise<void>;
  kill(): Promise<void>;
  stop(): Promise<void>;
}

describeWith('sqs', 'SQS that goes away', () => {
  const opened: OutboxTransport[] = [];
  afterAll(() => Promise.all(opened.map((transport) => transport.close?.())));
  async function open(url: string, options: SqsOptions = {}): Promise<OutboxTransport> {
    const transport = (await sqs({ client: configFor(url), ...options }).create()) as OutboxTransport;
    opened.push(transport);
    return transport;
  }
  const connect = (transport: OutboxTransport) => transport.connect!(AbortSignal.timeout(60_000));
  const batchFor = (topic: string, length: number) =>
    Array.from({ length }, (_, n) => contractMessage({ topic, key: `k${n}` }));

  it('killed with 500 messages under way, and back: what it took is there, and nobody is charged', async () => {
    const { startElasticMq } = (await import('../../../tools/services/elasticmq.mjs' as string)) as {
      startElasticMq(options: object): Promise<Server>;
    };
    const server = await startElasticMq({ durable: true });
    const observer = new SqsObserver(server.url);
    try {
      const [topic, transport] = [await observer.queue(), await open(server.url)];
      const states: string[] = [];
      await transport.connect!(AbortSignal.timeout(60_000), (state) => states.push(state));
      const batch = batchFor(topic, 500);
      let taken = 0;
      const report = (_: number, { ok }: { readonly ok: boolean }): void => void (ok && (taken += 1));
      const publishing = transport.publish(batch, { signal: new AbortController().signal, timeout: 60_000, report });
      await until(() => taken >= 10);
      await server.kill();
      await publishing;
      expect(taken).toBeLessThan(500);
      const isDown = async (): Promise<boolean> => {
        expect(await publish(transport, batchFor(topic, 1))).toMatchObject([{ ok: false, blame: 'transport' }]);
        return !transport.health!().up;
      };
      await until(isDown);
      expect(states).toEqual(['up', 'down']);
      await server.restart();
      await until(() =>
        connect(transport).then(
          () => true,
          () => false,
        ),
      );
      const last = batchFor(topic, 1);
      await until(async () => (await publish(transport, last))[0]!.ok);
      expect((await observer.receivedAll(topic, [last[0]!.id])).length).toBeGreaterThan(taken);
    } finally {
      await observer.close();
      await server.stop();
    }
  });

  it('a process that stood still past the timeout sends nothing of that publish', async () => {
    const observer = new SqsObserver(requiredUrl('sqs'));
    const [topic, transport] = [await observer.queue(), await open(requiredUrl('sqs'))];
    await connect(transport);
    expectAllOk(await publish(transport, batchFor(topic, 1))); // which has a connection and the URL
    const proceed = Promise.all([
      publish(transport, batchFor(topic, 200), 200),
      publish(transport, batchFor(topic, 1)),
    ]);
    const end = performance.now() + 400;
    while (performance.now() < end); // as a process that is frozen, or collects garbage
    const [late, other] = await proceed;
    expect(late.every((result) => !result.ok && result.blame === 'transport')).toBe(true);
    if (!other[0]!.ok) expect(other[0]).toMatchObject({ blame: 'transport' });
    const last = batchFor(topic, 1);
    await until(async () => (await publish(transport, last))[0]!.ok);
    expect((await observer.receivedAll(topic, [last[0]!.id])).length).toBeLessThanOrEqual(3);
    await observer.close();
  });

  it('one publish that expires while another one goes on: the other one is answered', async () => {
    const proxy = await TcpProxy.start(requiredUrl('sqs'));
    const observer = new SqsObserver(requiredUrl('sqs'));
    const transport = await open(`http://${proxy.host}:${proxy.port}`);
    await connect(transport);
    const [held, free] = [await observer.queue(), await observer.queue()];
    expectAllOk(await publish(transport, [...batchFor(held, 1), ...batchFor(free, 1)]));
    proxy.set({ down: 'hold' });
    const [first, second] = [publish(transport, batchFor(held, 1), 300), publish(transport, batchFor(free, 1))];
    // Nobody answers, so that it is the connection, and what was on it.
    expect(await first).toMatchObject([{ ok: false, blame: 'transport' }]);
    expect(await second).toMatchObject([{ ok: false, blame: 'transport' }]);
    expect(transport.health!()).toMatchObject({ up: false, state: 'closed' });
    proxy.heal();
    await connect(transport);
    expectAllOk(await publish(transport, batchFor(free, 1)));
    await observer.close();
    await proxy.close();
  });
});
