import { newPassword } from './containers.mjs';

const IMAGE = 'rabbitmq:3.13-alpine';

export const rabbitmq = {
  name: 'rabbitmq',
  variable: 'OUTBOX_TEST_RABBITMQ_URL',
  local: 'amqp://guest:guest@127.0.0.1:5672',

  /** Logs in and opens a channel. */
  async probe(url) {
    const { connect } = await import('amqplib');
    const connection = await connect(url, { timeout: 60_000 });
    connection.on('error', () => {});
    try {
      await connection.createChannel();
    } finally {
      await connection.close().catch(() => {});
    }
  },

  /** What the server at `url` says. */
  async version(url) {
    const { connect } = await import('amqplib');
    const connection = await connect(url, { timeout: 60_000 });
    const { version } = connection.connection.serverProperties;
    await connection.close();
    return version;
  },

  async container({ GenericContainer, Wait }) {
    const password = newPassword();
    const container = await new GenericContainer(IMAGE)
      .withEnvironment({ RABBITMQ_DEFAULT_USER: 'outbox', RABBITMQ_DEFAULT_PASS: password })
      .withExposedPorts(5672)
      .withWaitStrategy(Wait.forLogMessage('Server startup complete'))
      .start();
    const url = `amqp://outbox:${password}@${container.getHost()}:${container.getMappedPort(5672)}`;
    return { url, stop: () => container.stop() };
  },
};
