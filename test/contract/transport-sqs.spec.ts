import { SQSClient } from '@aws-sdk/client-sqs';
import type { OutboxTransport } from '../../lib/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { sqs, type SqsOptions } from '../../lib/transports/sqs/index.js';
import { faultsOf } from '../support/publish.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { configFor, SqsObserver } from '../support/sqs.js';
import { TcpProxy } from '../support/tcp-proxy.js';

type Client = NonNullable<SqsOptions['client']>;

function describeContract(name: string, suffix: string, client: (url: string) => Client): void {
  let proxy: TcpProxy;
  let observer: SqsObserver;
  describeTransportContract(name, {
    start: async () => {
      proxy = await TcpProxy.start(requiredUrl('sqs'));
      observer = new SqsObserver(requiredUrl('sqs'));
    },
    stop: async () => {
      await observer.close();
      await proxy.close();
    },
    create: () => sqs({ client: client(`http://${proxy.host}:${proxy.port}`) }).create() as Promise<OutboxTransport>,
    createTopic: () => observer.queue(observer.unusedName(suffix)),
    received: (topic, count) => observer.received(topic, count),
    poison: (topic) => ({ topic, payload: Buffer.alloc(300_000, 'x') }),
    timeout: 60_000,
    faults: {
      ...faultsOf(() => proxy),
      /** Of requests that wait, some would open connections of their own, and get through. */
      stall: async () => {
        await proxy.refuse();
        proxy.stall();
      },
    },
  });
}

describeWith('sqs', 'sqs() keeps the transport contract', () => {
  describeContract('sqs, a standard queue', '', (url) => configFor(url));
  describeContract('sqs, a FIFO queue', '.fifo', (url) => configFor(url));
  describeContract("sqs, over the application's client", '', (url) => new SQSClient(configFor(url) as object));
});
