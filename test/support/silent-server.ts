import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

/** Takes connections, and says nothing: a frozen machine, a load balancer with nobody behind it. */
export interface SilentServer {
  /** `host:port`. */
  readonly address: string;
  /** All that it took. */
  readonly taken: readonly Socket[];
  close(): void;
}

export async function silentServer(): Promise<SilentServer> {
  const taken: Socket[] = [];
  const server = createServer((socket) => void taken.push(socket.on('error', () => undefined).resume()));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    close: () => {
      for (const socket of taken) socket.destroy();
      server.close();
    },
  };
}
