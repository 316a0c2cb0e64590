import { redis } from '../../../lib/transports/redis/index.js';
import { RedisObserver } from '../../support/redis.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { describeTls } from '../../support/tls-contract.js';

describeWith('redis', 'redis() over TLS', () => {
  let observer: RedisObserver;
  describeTls({
    async start() {
      observer = new RedisObserver(requiredUrl('redis'));
      return requiredUrl('redis');
    },
    stop: () => observer.close(),
    open: ({ host, port }, ca) => {
      const url = Object.assign(new URL(requiredUrl('redis').replace('redis:', 'rediss:')), {
        hostname: host,
        port: String(port),
      });
      return redis({ url: url.href, ...(ca !== undefined && { client: { tls: { ca } } }) }).create();
    },
    topic: async () => {
      const stream = observer.stream();
      await observer.client.xgroup('CREATE', stream, 'readers', '0', 'MKSTREAM');
      return stream;
    },
    total: (stream) => observer.client.xlen(stream),
    refusal: (code) => ({ code: expect.stringMatching(new RegExp(`^${code}`)) }),
    flood: { count: 5_000, size: 2_000, most: 1_000_000 },
  });
});
