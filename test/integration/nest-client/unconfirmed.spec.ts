import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { OutboxMessage, OutboxTransport } from '../../../lib/index.js';
import { describeTransportContract } from '../../../lib/testing/index.js';
import { contractMessage, type ContractRunner, type ReceivedMessage, probePublish } from '../../support/publish.js';
import { CLIENTS, type NestServer } from '../../support/nest-clients.js';
import { describeWith } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

/** What the value alone would not tell. */
const record = ({ id, key, payload }: OutboxMessage): object => ({ id, key, payload: payload?.toString('base64') });
const received = (data: unknown): ReceivedMessage => {
  const { id, key, payload } = data as { id: string; key: string | null; payload?: string };
  return { id, key, payload: payload === undefined ? null : Buffer.from(payload, 'base64') };
};

describe.each(CLIENTS)('clientProxy() over $kind', ({ kind, services, client, listen }) => {
  describeWith(services, 'whose server is there', () => {
    const servers = new Map<string, NestServer>();
    let proxy: TcpProxy;
    const listenTo = async (topic: string): Promise<string> => {
      servers.set(topic, await listen(topic));
      return topic;
    };
    const create = (): Promise<OutboxTransport> =>
      Promise.resolve(clientProxy({ client: client(proxy.host, proxy.port), record, allowUnconfirmed: true }).create());
    const name = (): string => `contract.${process.pid}.${servers.size}`;
    const harness = {
      start: async () => {
        const topic = await listenTo(name());
        proxy = await TcpProxy.start(servers.get(topic)!.address, { silent: true });
      },
      stop: async () => {
        await proxy.close();
        for (const server of servers.values()) await server.close();
      },
      create,
      createTopic: () => listenTo(name()),
      received: async (topic: string, count: number) => {
        const { heard } = servers.get(topic)!;
        await until(() => heard.length >= count);
        return heard.map(received);
      },
    };
    const runner = globalThis as unknown as ContractRunner;
    describeTransportContract(`clientProxy(${kind})`, harness, runner);

    it('C19: a server that stands still keeps no publish and no close waiting, and the next connect is a new one', async () => {
      const server = await listen('still');
      const still = await TcpProxy.start(server.address, { silent: true });
      const transport = await clientProxy({ client: client(still.host, still.port), allowUnconfirmed: true }).create();
      const publish = async (timeout: number): Promise<boolean> =>
        (await probePublish(transport, [contractMessage({ topic: 'still' })], { timeout })).results[0]!.ok;
      expect(await publish(60_000)).toBe(true);
      const { accepted } = still;
      still.set({ up: 'hold', down: 'hold' });
      await publish(500); // what it says of it is worth nothing
      await transport.reset!();
      still.heal();
      await until(() => publish(10_000), 60_000); // ioredis may have to hear of its end first
      expect(still.accepted).toBeGreaterThan(accepted);
      still.set({ up: 'hold', down: 'hold' });
      await transport.close!();
      await still.close();
      await server.close();
    });
  });
});
