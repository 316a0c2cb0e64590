import { Kafka } from 'kafkajs';
import type { HeaderValue, TransportDefinition, OutboxTransport } from '../../lib/index.js';
import { kafka } from '../../lib/transports/kafka/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { kafkaThrough, TestTopics } from '../support/kafka.js';
import { faultsOf } from '../support/publish.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { describeWith, requiredUrl } from '../support/services.js';

describeWith('kafka', 'kafka()', () => {
  contract('kafka, from a configuration', (proxy) => kafka({ client: kafkaThrough(proxy) }));
  contract('kafka, from a Kafka object', (proxy) => kafka({ client: new Kafka(kafkaThrough(proxy)) }));
});

function contract(name: string, define: (proxy: TcpProxy) => TransportDefinition): void {
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
