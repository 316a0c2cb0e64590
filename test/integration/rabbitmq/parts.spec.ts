import amqp from 'amqplib';
import type { OutboxTransport, PublishResult, TransportStateListener } from '../../../lib/index.js';
import { errorText } from '../../../lib/observe/redact/error-text.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeUnlessMissing, describeWith, requiredUrl } from '../../support/services.js';
import { silentServer, type SilentServer } from '../../support/silent-server.js';
import { until } from '../../support/until.js';

const blames = (results: readonly PublishResult[]) => results.map((result) => (result.ok ? 'ok' : result.blame));

describeWith('rabbitmq', 'rabbitmq() with one part of it amiss', () => {
  let observer: RabbitMqObserver;
  const opened: OutboxTransport[] = [];
  const silent: SilentServer[] = [];
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((transport) => transport.close?.()));
    for (const server of silent.splice(0)) server.close();
  });
  afterAll(() => observer.close());

  async function create(options: Partial<RabbitMqOptions>): Promise<OutboxTransport> {
    const transport = await rabbitmq(options as RabbitMqOptions).create();
    opened.push(transport);
    return transport;
  }
  async function holes(count: number): Promise<string[]> {
    silent.push(...(await Promise.all(Array.from({ length: count }, silentServer))));
    return silent.map(({ address }) => address);
  }
  const urlOf = (server: string): string => `amqp://guest:guest@${server}`;

  it.each([1, 2])(
    'M2: %d silent servers in front are passed, though each attempt is given up while one is asked',
    async (count) => {
      const servers = await holes(count);
      const urls = [...servers.map(urlOf), requiredUrl('rabbitmq')];
      const transport = await create({ urls, connectTimeout: 600_000 });
      // Shorter than it takes to give up one server.
      for (const server of servers) {
        const error: unknown = await transport.connect!(AbortSignal.timeout(1_000)).catch((reason: unknown) => reason);
        expect(errorText(error)).toContain(`server ${server}`);
        expect(errorText(error)).not.toContain('guest');
        expect(transport.health?.()).toMatchObject({ up: false, detail: expect.stringContaining(server) });
      }
      // Much less than one server has: an attempt that began with a silent one would not be through.
      await transport.connect?.(AbortSignal.timeout(60_000));
      expect(transport.health?.()).toMatchObject({ up: true });
    },
  );

  it.each(['one channel in all', 'a connection whose other channels are in use'])(
    'M3: with %s, a message whose exchange is missing stops nobody, and is found each time',
    async (what) => {
      const url = (channels: number): string => `${requiredUrl('rabbitmq')}?channelMax=${channels}`;
      let connection: amqp.ChannelModel | undefined;
      if (what !== 'one channel in all') {
        connection = await amqp.connect(url(2));
        connection.on('error', () => undefined);
        await connection.createChannel();
      }
      const transport = await create(connection === undefined ? { url: url(1) } : { connection });
      await transport.connect?.(AbortSignal.timeout(60_000));
      const good = await observer.queue();
      const poison = contractMessage({ topic: good, options: { rabbitmq: { exchange: observer.unusedName() } } });
      const innocents = Array.from({ length: 5 }, (_, n) => contractMessage({ topic: good, key: `k${n}` }));
      const batch = [poison, ...innocents];
      for (let n = 0; n < 3; n += 1) {
        let left = batch;
        // As the relay does: those that were with it go singly.
        for (const one of [batch, ...batch.map((message) => [message])]) {
          const { results } = await probePublish(transport, one, { timeout: 60_000 });
          left = left.filter((message) => !one.some((sent, at) => sent === message && results[at]?.ok === true));
          const atFault = one.filter((_, at) => !['ok', 'collateral'].includes(blames(results)[at] as string));
          expect(atFault).toEqual(one.includes(poison) ? [poison] : []);
        }
        expect(left).toEqual([poison]);
      }
      expect(transport.health?.()).toMatchObject({ up: true });
      await connection?.close();
    },
  );

  it('M2: topology that cannot be asserted again: the error of the next message says why, and others get through', async () => {
    const [queue, good] = [observer.unusedName(), await observer.queue()];
    const assertQueue = [{ name: queue, options: { durable: false } }];
    const transport = await create({ url: requiredUrl('rabbitmq'), topology: { assertQueue } });
    const publish = async (topic: string) =>
      (await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 })).results[0]!;
    await transport.connect?.(AbortSignal.timeout(60_000));
    await observer.channel.deleteQueue(queue);
    await observer.channel.assertQueue(queue, { durable: true }); // by somebody else, in another way
    const missing = observer.unusedName();
    await until(async () => {
      const result = await publish(missing);
      return (
        !result.ok && errorText(result.error).includes('It could not do so the last time (406 PRECONDITION_FAILED)')
      );
    });
    expect(await publish(good)).toMatchObject({ ok: true });
    await observer.channel.deleteQueue(queue);
    await until(async () => {
      const result = await publish(missing);
      return !result.ok && !errorText(result.error).includes('the last time');
    });
  });
});

describeUnlessMissing(RabbitMqNode.isInstalled ? [] : ['rabbitmq'], 'a RabbitMQ user who may have one channel', () => {
  const user = 'narrow';
  let node: RabbitMqNode;
  let observer: RabbitMqObserver;
  let transport: OutboxTransport | undefined;
  beforeAll(async () => {
    node = await RabbitMqNode.start();
    observer = await RabbitMqObserver.connect(node.url);
    await node.ctl('add_user', user, user);
    await node.ctl('set_permissions', user, '.*', '.*', '.*');
    await node.ctl('set_user_limits', user, '{"max-channels": 1}');
  });
  afterAll(async () => {
    await transport?.close?.();
    await observer?.connection.close();
    await node?.remove();
  });

  const noting =
    (lost: string[]): TransportStateListener =>
    (state, reason) =>
      state === 'down' && lost.push(errorText(reason));

  it('M3: a message whose exchange is missing costs the connection (530), and stops nobody who is tried again', async () => {
    transport = await rabbitmq({ url: node.url.replace('guest:guest', `${user}:${user}`) }).create();
    const lost: string[] = [];
    await transport.connect?.(AbortSignal.timeout(60_000), noting(lost));
    const good = await observer.queue();
    const poison = contractMessage({ topic: good, options: { rabbitmq: { exchange: observer.unusedName() } } });
    const innocents = Array.from({ length: 5 }, (_, n) => contractMessage({ topic: good, key: `k${n}` }));
    const batch = [poison, ...innocents];
    const said = async (messages: typeof batch) =>
      blames((await probePublish(transport!, messages, { timeout: 60_000 })).results);
    for (let n = 0; n < 4 || lost.length === 0; n += 1) {
      // As the relay does: those that were with it go singly, and again after a transport that failed. The broker counts a channel that it
      // closed for some time, and refuses the next one by that count: how often it does is not ours to say.
      expect(['ok', 'message']).not.toContain((await said(batch))[0]);
      expect(['ok', 'message']).not.toContain((await said([poison]))[0]);
      for (const innocent of innocents)
        await until(async () => {
          const [blame] = await said([innocent]);
          expect(['ok', 'transport', 'collateral']).toContain(blame);
          return blame === 'ok';
        });
    }
    expect(lost.filter((reason) => !reason.includes('530'))).toEqual([]);
    expect(transport.health?.()).toMatchObject({ up: true });
  });

  it('M3: its topology that is deleted costs one connection, and the next one makes it anew', async () => {
    const queue = observer.unusedName();
    await transport?.close?.();
    transport = await rabbitmq({
      url: node.url.replace('guest:guest', `${user}:${user}`),
      topology: { assertQueue: [{ name: queue }] },
    }).create();
    const lost: string[] = [];
    await until(() =>
      transport!.connect!(AbortSignal.timeout(60_000), noting(lost)).then(
        () => true,
        () => false,
      ),
    );
    await observer.channel.deleteQueue(queue);
    const said = async () =>
      blames((await probePublish(transport!, [contractMessage({ topic: queue })], { timeout: 60_000 })).results)[0];
    await until(async () => (await said()) === 'ok');
    expect(lost.filter((reason) => !reason.includes('530'))).toEqual([]);
    expect(lost.length).toBeLessThanOrEqual(1);
  });
});
