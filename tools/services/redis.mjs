import { newPassword } from './containers.mjs';

const IMAGE = 'redis:7-alpine';

export const redis = {
  name: 'redis',
  variable: 'OUTBOX_TEST_REDIS_URL',
  local: 'redis://127.0.0.1:6379',

  async probe(url) {
    const { Redis } = await import('ioredis');
    const client = new Redis(url, { lazyConnect: true, connectTimeout: 60_000, retryStrategy: () => null });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.ping();
    } finally {
      client.disconnect();
    }
  },

  async version(url) {
    const { Redis } = await import('ioredis');
    const client = new Redis(url, { connectTimeout: 60_000, retryStrategy: () => null });
    const [, version] = /redis_version:(\S+)/.exec(await client.info('server'));
    client.disconnect();
    return version;
  },

  async container({ GenericContainer, Wait }) {
    const password = newPassword();
    const container = await new GenericContainer(IMAGE)
      .withCommand(['redis-server', '--requirepass', password])
      .withExposedPorts(6379)
      .withWaitStrategy(Wait.forLogMessage('Ready to accept connections'))
      .start();
    const url = `redis://:${password}@${container.getHost()}:${container.getMappedPort(6379)}`;
    return { url, stop: () => container.stop() };
  },
};
