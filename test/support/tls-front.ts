import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { createServer, type Server, type TlsOptions } from 'node:tls';
import type { Certificate } from './certificates.js';

/** TLS in front of a real server that has none: decrypted, and passed on as it is. */
export class TlsFront {
  private readonly clients = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    readonly host: string,
  ) {}

  /** @param target `host:port` or a URL */
  static async start(target: string, options: TlsOptions): Promise<TlsFront> {
    const { hostname, port } = new URL(target.includes('://') ? target : `tcp://${target}`);
    const front = new TlsFront(createServer({ ...options, noDelay: true }), '127.0.0.1');
    front.server.on('secureConnection', (client) => {
      const broker = connect({ host: hostname, port: Number(port), noDelay: true });
      front.clients.add(client);
      pipeline(client, broker, client, () => front.clients.delete(client));
    });
    front.server.listen(0, front.host);
    await once(front.server, 'listening');
    return front;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** To connections from now on. */
  present({ cert, key }: Certificate): void {
    this.server.setSecureContext({ cert, key });
  }

  async close(): Promise<void> {
    for (const client of this.clients) client.destroy();
    this.server.close();
    await once(this.server, 'close');
  }
}
