import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.mjs';
import { endProcess, startProcess, whenReady } from './own-process.mjs';

const IMAGE = 'nats:2-alpine';
const PROGRAM = 'nats-server';

export const nats = {
  name: 'nats',
  variable: 'OUTBOX_TEST_NATS_URL',
  local: 'nats://127.0.0.1:4222',

  /** Logs in, and asks for JetStream. */
  async probe(url) {
    const { connect } = await import('@nats-io/transport-node');
    const connection = await connect({ servers: url, timeout: 60_000, reconnect: false });
    try {
      if (connection.info.jetstream !== true) throw new Error('the server has no JetStream');
    } finally {
      await connection.close();
    }
  },

  async version(url) {
    const { connect } = await import('@nats-io/transport-node');
    const connection = await connect({ servers: url, timeout: 60_000, reconnect: false });
    const { version } = connection.info;
    await connection.close();
    return version;
  },

  /** Its own, with an empty store. */
  async own() {
    if (spawnSync(PROGRAM, ['--version']).error !== undefined) throw new Error(`${PROGRAM} is not installed`);
    const directory = await mkdtemp(join(tmpdir(), 'outbox-nats-'));
    const url = `nats://127.0.0.1:${await freePort()}`;
    const { hostname, port } = new URL(url);
    const args = ['-js', '-a', hostname, '-p', port, '-sd', join(directory, 'store')];
    const server = startProcess(PROGRAM, args, join(directory, 'log'));
    const stop = async () => {
      await endProcess(server, 'SIGTERM');
      await rm(directory, { recursive: true, force: true });
    };
    try {
      await whenReady(PROGRAM, server, () => this.probe(url));
    } catch (error) {
      await stop();
      throw error;
    }
    return { url, stop };
  },

  async container({ GenericContainer, Wait }) {
    const container = await new GenericContainer(IMAGE)
      .withCommand(['-js'])
      .withExposedPorts(4222)
      .withWaitStrategy(Wait.forLogMessage('Server is ready'))
      .start();
    const url = `nats://${container.getHost()}:${container.getMappedPort(4222)}`;
    return { url, stop: () => container.stop() };
  },
};
