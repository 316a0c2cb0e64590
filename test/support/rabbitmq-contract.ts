import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { RabbitMqObserver } from './rabbitmq.js';
import { describeWith, requiredUrl } from './services.js';
import { faultsOf } from './publish.js';
import { TcpProxy } from './tcp-proxy.js';

/** The transport's contract with whatever `amqplib` is in the file that calls it. */
export function describeRabbitMqContract(title: string, pipelineKeys: boolean): void {
  describeWith('rabbitmq', `rabbitmq() keeps the transport contract, ${title}`, () => {
    let proxy: TcpProxy;
    let observer: RabbitMqObserver;
    describeTransportContract('rabbitmq', {
      start: async () => {
        proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
        observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
      },
      stop: async () => {
        await observer.close();
        await proxy.close();
      },
      create: () => {
        const url = new URL(requiredUrl('rabbitmq'));
        url.host = `${proxy.host}:${proxy.port}`;
        return rabbitmq({ url: url.href, pipelineKeys }).create();
      },
      createTopic: () => observer.queue(),
      timeout: 60_000,
      received: (queue, count) => observer.received(queue, count, 60_000),
      poison: (topic) => ({ topic, options: { rabbitmq: { exchange: `${observer.prefix}-missing` } } }),
      faults: faultsOf(() => proxy),
    });
  });
}
