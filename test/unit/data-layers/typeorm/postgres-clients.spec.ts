import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { PostgresClients } from '../../../../lib/data-layers/drivers/postgres-clients.js';
import { sourceOf } from '../../../../lib/data-layers/typeorm/postgres.js';

/** `AuthenticationCleartextPassword`. */
const WHICH_PASSWORD = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]);

/** Asks who comes for a password, and hangs up. */
class Gatekeeper {
  private readonly server: Server;
  readonly heard: string[] = [];

  constructor() {
    this.server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => void socket.write(WHICH_PASSWORD));
      socket.on('data', (bytes: Buffer) => {
        if (bytes[0] !== 0x70) return; // `PasswordMessage`
        this.heard.push(bytes.subarray(5, -1).toString());
        socket.destroy();
      });
    });
  }
  async url(user: string): Promise<string> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `postgres://${user}@127.0.0.1:${(this.server.address() as AddressInfo).port}/shop`;
  }
  close(): void {
    this.server.close();
  }
}

describe('database.pooler', () => {
  let gatekeeper: Gatekeeper;
  beforeEach(() => {
    gatekeeper = new Gatekeeper();
  });
  afterEach(() => gatekeeper.close());

  it.each([
    ['of its own', 'app:own%20word', { password: 'other' }, 'own word'],
    ['of the options', 'app', { password: 'option' }, 'option'],
    ['of a function', 'app', { password: async () => 'fetched' }, 'fetched'],
    ['of the URL', 'app', { url: 'postgres://app:in%20url@pooler/shop', password: 'option' }, 'in url'],
    [
      'of a function of the primary',
      'app',
      { replication: { master: { password: async () => 'fetched' }, slaves: [] } },
      'fetched',
    ],
    ['with signs of a URL', 'app', { password: 'p@ss/w%rd?#' }, 'p@ss/w%rd?#'],
    ['beside a URL without one', 'app', { url: 'postgres://app@pooler/shop', password: 'option' }, 'option'],
    [
      'of the primary',
      'app',
      { replication: { master: { url: 'postgres://app:first@pooler/shop' }, slaves: [] } },
      'first',
    ],
  ])('W6: logs in with the password %s', async (_, user, options, password) => {
    const application = new DataSource({ type: 'postgres', ...options } as DataSourceOptions);
    const settings = { connectTimeout: 60_000, statementTimeout: 60_000 };
    const clients = new PostgresClients(sourceOf(application), settings, await gatekeeper.url(user));
    await expect(clients.take()).rejects.toThrow();
    expect(gatekeeper.heard).toEqual([password]);
  });
});
