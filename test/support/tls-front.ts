import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';
import { createServer, type Server, type TlsOptions } from 'node:tls';
import type { Certificate } from './certificates.js';

/** TLS in front of a real server that has none: decrypted, and passed on as it is. */
export class TlsFront {
  private constructor(
    private readonly server: Server,
    readonly host: string,
  ) {}

  /** @param target `host:port` or a URL */
  static async start(target: string, options: TlsOptions): Promise<TlsFront> {
    const { hostname, port } = new URL(target.includes('://') ? target : `tcp://${target}`);
    const server = createServer({ ...options, noDelay: true }, (client) => {
      const broker = connect({ host: hostname, port: Number(port), noDelay: true });
      pipeline(client, broker, client, () => broker.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TlsFront(server, '127.0.0.1');
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** To connections from now on. */
  present({ cert, key }: Certificate): void {
    this.server.setSecureContext({ cert, key });
  }

  /** When the last connection ended. */
  async close(): Promise<void> {
    this.server.close();
    await once(this.server, 'close');
  }
}
