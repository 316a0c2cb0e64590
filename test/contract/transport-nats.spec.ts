import { nats } from '../../lib/transports/nats/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { NatsObserver } from '../support/nats.js';
import { faultsOf } from '../support/publish.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';

describeWith('nats', 'nats() keeps the transport contract', () => {
  let proxy: TcpProxy;
  let observer: NatsObserver;
  describeTransportContract('nats', {
    start: async () => {
      proxy = await TcpProxy.start(requiredUrl('nats'));
      observer = await NatsObserver.connect(requiredUrl('nats'));
    },
    stop: async () => {
      await observer.close();
      await proxy.close();
    },
    create: () => nats({ client: { servers: `${proxy.host}:${proxy.port}` } }).create(),
    createTopic: () => observer.stream(),
    timeout: 60_000,
    received: (stream, count) => observer.received(stream, count),
    poison: () => ({ topic: observer.unusedName() }),
    faults: faultsOf(() => proxy),
  });
});
