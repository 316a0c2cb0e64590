import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing, requiredUrl, serviceUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';

const missing = (['rabbitmq', 'postgres'] satisfies Service[]).filter((one) => serviceUrl(one) === undefined);
/** Neither a connect nor a stop is given up while a test waits. */
const PATIENT = { publishTimeout: 600_000, lease: 1_800_000, shutdownTimeout: 600_000 };

describeUnlessMissing(missing, 'a relay that starts', () => {
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterAll(() => observer?.close());

  describe.each(['buckets', 'rowLock'] as const)('coordination %s', (coordination) => {
    let harness: Harness;
    beforeAll(async () => {
      const options = coordination === 'rowLock' ? { coordination, ordering: 'none' as const } : { coordination };
      harness = await createHarness('postgres', options);
    });
    afterAll(() => harness?.close());
    const start = async (options: RabbitMqOptions) => {
      const transport = await rabbitmq({ connectTimeout: 600_000, ...options }).create();
      const relay = harness.relay({ default: transport }, PATIENT);
      await relay.dispatcher.start();
      return relay;
    };

    it('C20: connects without a message, so that the topology is there', async () => {
      const queue = observer.unusedName();
      const { dispatcher } = await start({
        url: requiredUrl('rabbitmq'),
        topology: { assertQueue: [{ name: queue, options: { expires: 60_000 } }] },
      });
      const isThere = async (): Promise<boolean> => {
        const channel = await observer.connection.createChannel();
        channel.on('error', () => undefined);
        return channel.checkQueue(queue).then(
          () => channel.close().then(() => true),
          () => false,
        );
      };
      await until(isThere);
      expect(dispatcher.status().transports).toMatchObject([{ circuit: 'closed', lastError: null }]);
      await dispatcher.stop();
    });

    it('C20: a broker that cannot be reached is told before there is a message', async () => {
      const { dispatcher, hooks } = await start({ url: 'amqp://127.0.0.1:1' });
      expect((await hooks.until('circuitOpened')).error).toContain('ECONNREFUSED');
      expect(dispatcher.status().transports).toMatchObject([{ circuit: expect.stringMatching(/open|probing/) }]);
      expect(hooks.of('failed')).toEqual([]);
      await dispatcher.stop();
    });

    it('M5: a login that is refused names the server, and no password', async () => {
      const url = new URL(requiredUrl('rabbitmq'));
      url.password = 'swordfish-4711';
      const { dispatcher, hooks } = await start({ url: url.href });
      const { error } = await hooks.until('circuitOpened');
      expect(error).toMatch(/ACCESS.REFUSED/);
      expect(error).toContain(`(server ${url.hostname}:${url.port || 5672})`);
      expect(error).not.toContain('swordfish');
      await dispatcher.stop();
    });

    it('C20: one that says nothing delays neither the start nor a stop', async () => {
      const server = createServer();
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const connected = once(server, 'connection', { signal: AbortSignal.timeout(60_000) });
      const { port } = server.address() as AddressInfo;
      const { dispatcher, hooks } = await start({ url: `amqp://127.0.0.1:${port}` });
      const [socket] = (await connected) as [Socket];
      const closed = once(socket.on('error', () => undefined).resume(), 'close', {
        signal: AbortSignal.timeout(60_000),
      });
      await dispatcher.stop();
      await closed;
      expect(hooks.of('circuitOpened')).toEqual([]);
      server.close();
    });
  });
});
