const IMAGE = 'nats:2-alpine';

export const nats = {
  name: 'nats',
  variable: 'OUTBOX_TEST_NATS_URL',
  local: 'nats://127.0.0.1:4222',

  async probe(url) {
    const { connect } = await import('@nats-io/transport-node');
    const connection = await connect({ servers: url, timeout: 60_000, reconnect: false });
    await connection.close();
  },

  async container({ GenericContainer, Wait }) {
    const container = await new GenericContainer(IMAGE)
      .withExposedPorts(4222)
      .withWaitStrategy(Wait.forLogMessage('Server is ready'))
      .start();
    const url = `nats://${container.getHost()}:${container.getMappedPort(4222)}`;
    return { url, stop: () => container.stop() };
  },
};
