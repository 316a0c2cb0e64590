import { redis } from '../../lib/transports/redis/index.js';
import { describeTransportContract } from '../../lib/testing/index.js';
import { faultsOf } from '../support/publish.js';
import { RedisObserver } from '../support/redis.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';

describeWith('redis', 'redis() keeps the transport contract', () => {
  let proxy: TcpProxy;
  let observer: RedisObserver;
  describeTransportContract('redis', {
    start: async () => {
      proxy = await TcpProxy.start(requiredUrl('redis'));
      observer = new RedisObserver(requiredUrl('redis'));
    },
    stop: async () => {
      await observer.close();
      await proxy.close();
    },
    create: () => {
      const url = new URL(requiredUrl('redis'));
      url.host = `${proxy.host}:${proxy.port}`;
      return redis({ url: url.href }).create();
    },
    createTopic: () => observer.stream(),
    timeout: 60_000,
    received: (stream, count) => observer.received(stream, count),
    poison: async () => {
      const topic = observer.stream();
      await observer.client.set(topic, 'no stream');
      return { topic };
    },
    faults: faultsOf(() => proxy),
  });
});
