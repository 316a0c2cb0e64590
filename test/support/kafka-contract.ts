import type { HeaderValue, OutboxTransport, TransportDefinition } from '../../lib/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { TestTopics } from './kafka.js';
import { faultsOf } from './publish.js';
import { requiredUrl } from './services.js';
import { TcpProxy } from './tcp-proxy.js';

/** The transport's contract with whatever client is given. */
export function describeKafkaContract(name: string, define: (proxy: TcpProxy) => TransportDefinition): void {
  const topics = new TestTopics();
  let proxy: TcpProxy;

  describeTransportContract(name, {
    start: async () => {
      proxy = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
      await topics.start();
    },
    stop: async () => {
      await topics.stop();
      await proxy.close();
    },
    create: () => define(proxy).create() as Promise<OutboxTransport>,
    createTopic: () => topics.create(),
    received: async (topic, count) =>
      (await topics.read(topic, count, { timeout: 60_000 })).map(({ key, value, headers }) => ({
        id: String(headers!['id']),
        key: key === null ? null : key.toString(),
        payload: value,
        headers: headers as Record<string, HeaderValue>,
      })),
    poison: (topic) => ({ topic, payload: Buffer.alloc(2_000_000) }),
    timeout: 60_000,
    faults: faultsOf(() => proxy),
  });
}
