// @tier gate
import { Kafka } from 'kafkajs';
import type { OutboxMessage, OutboxTransport, PublishResult } from '../../../lib/index.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { contractMessage, probePublish, publish } from '../../support/publish.js';
import { eventually, kafkaThrough, messages, TestTopics } from '../../support/kafka.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

/** Longer than anything takes: what is not there by then never comes. */
const A_MINUTE = 60_000;
/** Longer than a test may take: what has it ends by something else. */
const FOR_EVER = 600_000;

const verdicts = (results: readonly PublishResult[]) => [...new Set(results.map((r) => (r.ok ? 'ok' : r.blame)))];
const codes = (results: readonly PublishResult[]) => [
  ...new Set(results.map((r) => (r.ok ? 'ok' : (r.error as { code: string }).code))),
];

describeWith('kafka', 'kafka() behind a broken network', () => {
  const topics = new TestTopics();
  const opened: OutboxTransport[] = [];
  let proxy: TcpProxy;
  beforeAll(() => topics.start());
  beforeEach(async () => {
    proxy = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
  });
  afterEach(async () => {
    proxy.heal();
    for (const transport of opened.splice(0)) await transport.close!();
    await proxy.close();
  });
  afterAll(() => topics.stop());

  const open = async (options: Partial<KafkaOptions> = {}) => {
    const transport = await kafka({ client: kafkaThrough(proxy), ...options }).create();
    opened.push(transport);
    return transport;
  };
  const ids = async (topic: string, count: number) =>
    (await topics.read(topic, count)).map(({ headers }) => String(headers!['id']));
  /** Publishes while replies are lost, and gives up once the broker has the batch. */
  const publishWithoutReply = async (transport: OutboxTransport, topic: string, batch: OutboxMessage[]) => {
    const before = await topics.total(topic);
    proxy.set({ down: 'drop' });
    const giveUp = new AbortController();
    const outcome = probePublish(transport, batch, { timeout: A_MINUTE, signal: giveUp.signal });
    await eventually('the broker stored the batch', async () => (await topics.total(topic)) === before + batch.length);
    giveUp.abort(new Error('the deadline'));
    return (await outcome).results;
  };

  describe.each([
    ['a configuration', () => kafkaThrough(proxy)],
    ['a Kafka object', () => new Kafka(kafkaThrough(proxy))],
  ] as const)('from %s', (_name, client) => {
    // kafkajs, left to itself: the next send resolves with the offset of the lost one and is never stored.
    it.each([2, 3])(
      'C8: after a lost reply the next batch of %d is stored, never taken for the lost one',
      async (size) => {
        const topic = await topics.create();
        const transport = await open({ client: client(), producers: 1 });
        const first = contractMessage({ topic, key: 'first' });
        expect(verdicts(await publish(transport, [first]))).toEqual(['ok']);
        const [lost, next] = [messages(topic, 2), messages(topic, size)];
        expect(codes(await publishWithoutReply(transport, topic, lost))).toEqual(['PUBLISH_TIMEOUT']);
        proxy.heal();
        expect(verdicts(await publish(transport, next))).toEqual(['ok']);
        expect(await ids(topic, 3 + size)).toEqual([first, ...lost, ...next].map(({ id }) => id));
      },
    );

    it('a deadline that passes while the connection is made: the request is not sent when it comes up', async () => {
      const topic = await topics.create();
      const transport = await open({ client: client() });
      proxy.set({ delay: 150 });
      expect(verdicts(await publish(transport, messages(topic, 5), 400))).toEqual(['transport']);
      await eventually('the sockets are closed', () => proxy.open === 0);
      proxy.heal();
      expect(verdicts(await publish(transport, messages(topic, 1)))).toEqual(['ok']);
      expect(await topics.total(topic)).toBe(1);
    });
  });

  it('C7: a connection that breaks after the broker stored the batch: repeated by itself, stored once, also without keys', async () => {
    const topic = await topics.create(4);
    const transport = await open({ producers: 1 });
    expect(
      verdicts(
        await publish(
          transport,
          messages(topic, 4, () => ({ key: null })),
        ),
      ),
    ).toEqual(['ok']);
    const batch = messages(topic, 10, () => ({ key: null }));
    proxy.set({ down: 'drop' });
    const results = publish(transport, batch);
    await eventually('the broker stored the batch', async () => (await topics.total(topic)) === 14);
    proxy.heal();
    proxy.cut();
    expect(verdicts(await results)).toEqual(['ok']);
    expect(await topics.total(topic)).toBe(14);
    expect(
      verdicts(
        await publish(
          transport,
          messages(topic, 8, () => ({ key: null })),
        ),
      ),
    ).toEqual(['ok']);
    expect(new Set(await ids(topic, 22)).size).toBe(22);
  });

  it.each(['fin', 'rst'] as const)('a connection that ends while idle (%s) fails nothing', async (how) => {
    const topic = await topics.create();
    const transport = await open({ producers: 1 });
    expect(verdicts(await publish(transport, messages(topic, 2)))).toEqual(['ok']);
    proxy.cut(how);
    await eventually('the sockets are closed', () => proxy.open === 0);
    expect(transport.health!()).toEqual({ up: true, state: 'connected' });
    expect(verdicts(await publish(transport, messages(topic, 2)))).toEqual(['ok']);
    expect(await topics.total(topic)).toBe(4);
  });

  it('a batch that waits for a producer gives up at its own deadline and was never sent', async () => {
    const topic = await topics.create();
    const transport = await open({ producers: 1 });
    await transport.connect!(AbortSignal.timeout(A_MINUTE));
    proxy.set({ up: 'hold' });
    const [running, waiting] = [
      publish(transport, messages(topic, 1), A_MINUTE),
      publish(transport, messages(topic, 1), 300),
    ];
    expect(codes(await waiting)).toEqual(['PUBLISH_TIMEOUT']);
    proxy.heal();
    expect(verdicts(await running)).toEqual(['ok']);
    expect(await topics.total(topic)).toBe(1);
  });

  it('reset ends what is running at once; close waits for it and leaves no connection', async () => {
    const topic = await topics.create();
    // Neither its own deadline nor the client's ends it before the test is over.
    const transport = await open({ client: { ...kafkaThrough(proxy), requestTimeout: FOR_EVER } });
    await transport.connect!(AbortSignal.timeout(A_MINUTE));
    proxy.set({ up: 'hold' });
    const running = publish(transport, messages(topic, 1), FOR_EVER);
    await eventually('the request is on its way', () => proxy.heldUp > 0);
    await transport.reset!();
    expect(verdicts(await running)).toEqual(['transport']);

    proxy.heal();
    proxy.set({ delay: 50 });
    const last = publish(transport, messages(topic, 1));
    await transport.close!();
    expect(verdicts(await last)).toEqual(['ok']);
    await eventually('the sockets are closed', () => proxy.open === 0);
    expect(transport.health!()).toEqual({ up: false, state: 'closed' });
    expect(await topics.total(topic)).toBe(1);
  });

  it('a transaction without an answer is not confirmed; the next one is, and readers of committed data see each once', async () => {
    const topic = await topics.create();
    const transport = await open({ transactional: { transactionalId: `tx-${TestTopics.name()}` }, producers: 1 });
    const [first, lost, next] = [messages(topic, 1), messages(topic, 2), messages(topic, 2)];
    expect(verdicts(await publish(transport, first))).toEqual(['ok']);
    proxy.set({ down: 'drop' });
    expect(verdicts(await publish(transport, lost, 500))).toEqual(['transport']);
    proxy.heal();
    expect(verdicts(await publish(transport, next))).toEqual(['ok']);
    expect((await ids(topic, 3)).filter((id) => !lost.some((message) => message.id === id))).toEqual(
      [...first, ...next].map(({ id }) => id),
    );
  });

  it('says nothing on the console, and no payload in what it reports', async () => {
    const spies = (['log', 'info', 'warn', 'error', 'debug'] as const).map((level) =>
      jest.spyOn(console, level).mockImplementation(),
    );
    const written = jest.spyOn(process.stderr, 'write');
    const transport = await open();
    proxy.cut();
    await proxy.refuse();
    const [result] = await publish(
      transport,
      [contractMessage({ topic: 't', payload: 'top secret', headers: { token: 'top secret' } })],
      A_MINUTE,
    );
    expect(verdicts([result!])).toEqual(['transport']);
    for (let error: unknown = (result as { error: unknown }).error; error instanceof Error; error = error.cause) {
      expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain('secret');
    }
    for (const spy of [...spies, written]) {
      expect(spy).not.toHaveBeenCalled();
      spy.mockRestore();
    }
  });
});
