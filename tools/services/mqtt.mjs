import { once } from 'node:events';

const IMAGE = 'eclipse-mosquitto:2';

export const mqtt = {
  name: 'mqtt',
  variable: 'OUTBOX_TEST_MQTT_URL',
  local: 'mqtt://127.0.0.1:1883',

  async probe(url) {
    const { connectAsync } = await import('mqtt');
    const client = await connectAsync(url, { connectTimeout: 60_000, reconnectPeriod: 0 }, false);
    await client.endAsync(true);
  },

  async version(url) {
    const { connectAsync } = await import('mqtt');
    const client = await connectAsync(url, { connectTimeout: 60_000, reconnectPeriod: 0 }, false);
    const said = once(client, 'message', { signal: AbortSignal.timeout(60_000) });
    await client.subscribeAsync('$SYS/broker/version');
    const [, text] = await said;
    await client.endAsync(true);
    return /\d+(\.\d+)+/.exec(text.toString())[0];
  },

  async container({ GenericContainer, Wait }) {
    const container = await new GenericContainer(IMAGE)
      .withCommand(['mosquitto', '-c', '/mosquitto-no-auth.conf'])
      .withExposedPorts(1883)
      .withWaitStrategy(Wait.forLogMessage(/mosquitto version .* running/))
      .start();
    const url = `mqtt://${container.getHost()}:${container.getMappedPort(1883)}`;
    return { url, stop: () => container.stop() };
  },
};
