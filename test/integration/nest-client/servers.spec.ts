import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { ClientKafka, ClientMqtt, ClientNats, type ClientProxy, ClientRMQ } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import { TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { describeUnlessMissing, describeWith, requiredUrl } from '../../support/services.js';
import { silentServer, type SilentServer } from '../../support/silent-server.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

type Client = Pick<ClientProxy, 'connect' | 'emit' | 'close'>;

const hostOf = (url: string): string => new URL(url).host;
const place = (server: string): { host: string; port: number } => {
  const { hostname, port } = new URL(`tcp://${server}`);
  return { host: hostname, port: Number(port) };
};
const SERVICES = ['rabbitmq', 'nats', 'mqtt'] as const;
const CLIENTS: Record<(typeof SERVICES)[number], (servers: readonly string[]) => Client> = {
  rabbitmq: (servers) =>
    new ClientRMQ({
      urls: servers.map((server) => `amqp://guest:guest@${server}`),
      socketOptions: { heartbeatIntervalInSeconds: 3_600 }, // no client leaves a silent server before its publish does
      queue: `servers.${randomUUID()}`,
      queueOptions: { durable: false, autoDelete: true, exclusive: true },
    }),
  nats: (servers) => new ClientNats({ servers: [...servers], noRandomize: true } as object),
  mqtt: (servers) => new ClientMqtt({ servers: servers.map(place) } as object),
};

/** Shorter than any client waits for a server. */
const SHORT = 700;

describe('clientProxy() with several servers, of which one takes the connection and says nothing', () => {
  const silent: SilentServer[] = [];
  const opened: OutboxTransport[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((transport) => transport.close?.()));
    for (const server of silent.splice(0)) server.close();
  });
  async function holes(count: number): Promise<string[]> {
    silent.push(...(await Promise.all(Array.from({ length: count }, () => silentServer()))));
    return silent.map(({ address }) => address);
  }
  async function transportTo(client: Client): Promise<OutboxTransport> {
    const transport = await clientProxy({ client, allowUnconfirmed: true }).create();
    opened.push(transport);
    return transport;
  }
  /** An attempt to connect that ends as soon as this server is asked. */
  async function giveUpAt(server: SilentServer, transport: OutboxTransport): Promise<void> {
    const attempt = new AbortController();
    const asked = until(() => server.taken.length > 0).finally(() => attempt.abort(new Error('given up')));
    await Promise.all([asked, expect(transport.connect!(attempt.signal)).rejects.toThrow()]);
  }
  const timesAsked = (): number[] => silent.map(({ taken }) => taken.length);
  const publish = async (transport: OutboxTransport, topic: string, timeout: number): Promise<boolean> => {
    const { results } = await probePublish(transport, [contractMessage({ topic, payload: '{}' })], { timeout });
    return results[0]!.ok;
  };

  describe.each(SERVICES)('of %s', (service) => {
    describeWith(service, 'which is there', () => {
      it.each([1, 2])(
        'M2: %d of them in front are passed, though each attempt is given up while one is asked',
        async (count) => {
          const transport = await transportTo(
            CLIENTS[service]([...(await holes(count)), hostOf(requiredUrl(service))]),
          );
          for (const server of silent) await giveUpAt(server, transport);
          const asked = timesAsked();
          await transport.connect!(AbortSignal.timeout(60_000));
          expect(await publish(transport, 'servers', 60_000)).toBe(true);
          // It begins where it was heard.
          await transport.reset!();
          expect(await publish(transport, 'servers', 60_000)).toBe(true);
          expect(timesAsked()).toEqual(asked);
        },
      );

      it('M2: one that falls silent later is left with the publish that it does not answer', async () => {
        const live = requiredUrl(service);
        const proxy = await TcpProxy.start(live, { silent: true });
        const transport = await transportTo(CLIENTS[service]([`${proxy.host}:${proxy.port}`, hostOf(live)]));
        expect(await publish(transport, 'servers', 60_000)).toBe(true);
        expect(proxy.accepted).toBeGreaterThan(0);
        proxy.set({ up: 'hold', down: 'hold' });
        expect(await publish(transport, 'servers', SHORT)).toBe(false);
        expect(await publish(transport, 'servers', 60_000)).toBe(true);
        await proxy.close();
      });
    });
  });

  describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'of Kafka', () => {
    let node: KafkaNode;
    const topics = new TestTopics(() => node.config());
    beforeAll(async () => {
      node = await KafkaNode.start();
      await topics.start();
    });
    afterAll(async () => {
      await topics.stop();
      await node?.stop();
    });

    it('N3: it is passed, though each attempt is given up while it is asked, and not asked again', async () => {
      const [topic, [live]] = [await topics.create(), node.config().brokers as string[]];
      const client = new ClientKafka({ client: { brokers: [...(await holes(1)), live!] } });
      const transport = await transportTo(client);
      await giveUpAt(silent[0]!, transport);
      const asked = timesAsked();
      await transport.connect!(AbortSignal.timeout(60_000));
      expect(await publish(transport, topic, 60_000)).toBe(true);
      await transport.reset!();
      expect(await publish(transport, topic, 60_000)).toBe(true);
      expect(timesAsked()).toEqual(asked);
    });
  });
});
