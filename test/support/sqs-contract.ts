import type { OutboxTransport } from '../../lib/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { sqs, type SqsOptions } from '../../lib/transports/sqs/index.js';
import { faultsOf } from './publish.js';
import { requiredUrl } from './services.js';
import { SqsObserver } from './sqs.js';
import { TcpProxy } from './tcp-proxy.js';

/** @param suffix of the queue's name, which makes it a FIFO queue or not */
export function describeSqsContract(
  name: string,
  suffix: '' | '.fifo',
  client: (url: string) => NonNullable<SqsOptions['client']>,
  runner?: Parameters<typeof describeTransportContract>[2],
): void {
  let proxy: TcpProxy;
  let observer: SqsObserver;
  const harness = {
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
    received: (topic: string, count: number) => observer.received(topic, count),
    poison: (topic: string) => ({ topic, payload: Buffer.alloc(300_000, 'x') }),
    timeout: 60_000,
    faults: {
      ...faultsOf(() => proxy),
      /** Of requests that wait, some would open connections of their own, and get through. */
      stall: async () => {
        await proxy.refuse();
        proxy.stall();
      },
    },
  };
  describeTransportContract(name, harness, runner);
}
