import type { OutboxTransport } from '../../../lib/index.js';
import { errorText } from '../../../lib/observe/redact/error-text.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { silentServer, type SilentServer } from '../../support/silent-server.js';
import { until } from '../../support/until.js';

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

  it('M3: a connection of one channel is refused', async () => {
    const transport = await create({ url: `${requiredUrl('rabbitmq')}?channelMax=1` });
    await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow('No channels left');
  });

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
