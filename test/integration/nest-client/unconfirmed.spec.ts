import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { describeTransportContract } from '../../../lib/testing/transport-contract/contract.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import type { ContractRunner, ReceivedMessage } from '../../../lib/testing/transport-contract/harness.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import type { OutboxMessage } from '../../../lib/outbox-message.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
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

    it('C19: a server that stands still ends neither a publish nor a close late, and the next connect is a new one', async () => {
      const [topic] = servers.keys();
      const transport = await create();
      const publish = async (timeout: number): Promise<unknown> =>
        (await probePublish(transport, [contractMessage({ topic: topic! })], { timeout })).results[0];
      await transport.connect!(AbortSignal.timeout(60_000));
      const { accepted } = proxy;
      proxy.set({ up: 'hold', down: 'hold' });
      await publish(500); // what it says of it is worth nothing
      await transport.reset!();
      proxy.heal();
      await until(async () => ((await publish(10_000)) as { ok: boolean }).ok, 60_000);
      expect(proxy.accepted).toBeGreaterThan(accepted);
      await transport.close!();
      await until(() => proxy.open === 0);
    });
  });
});
