import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';

/**
 * What happens to the bytes of one direction.
 * - `forward`: at once, or after `delay`.
 * - `hold`: kept, in order, and delivered when the direction goes back to `forward` (a network that stalls).
 * - `drop`: read and thrown away (a request or a reply that got lost). A connection that lost bytes never carries any
 *   again in that direction: a hole in the middle of a stream is nothing a network can do.
 */
export type Flow = 'forward' | 'hold' | 'drop';

interface Direction {
  readonly from: Socket;
  readonly to: Socket;
  readonly held: Buffer[];
  lossy: boolean;
  /** Chunks that wait for their delay: later ones must not overtake them. */
  delayed: number;
  due: number;
}
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  readonly up: Direction;
  readonly down: Direction;
}

/** A TCP proxy between a client under test and a real server. `up` is towards the server. */
export class TcpProxy {
  readonly host = '127.0.0.1';
  port = 0;
  /** Bytes that were forwarded, and connections accepted, since the start. */
  bytesUp = 0;
  bytesDown = 0;
  accepted = 0;
  private up: Flow = 'forward';
  private down: Flow = 'forward';
  private delay = 0;
  private listener: Server | undefined;
  private readonly pairs = new Set<Pair>();
  private readonly timers = new Set<NodeJS.Timeout>();

  private constructor(private readonly target: { host: string; port: number }) {}

  /** `target`: `host:port` or a URL. */
  static async start(target: string): Promise<TcpProxy> {
    const url = new URL(target.includes('://') ? target : `tcp://${target}`);
    const proxy = new TcpProxy({ host: url.hostname, port: Number(url.port) });
    await proxy.accept();
    return proxy;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.pairs.size;
  }

  set(flow: { up?: Flow; down?: Flow; /** milliseconds, both directions */ delay?: number }): void {
    this.up = flow.up ?? this.up;
    this.down = flow.down ?? this.down;
    this.delay = flow.delay ?? this.delay;
    for (const pair of this.pairs) this.release(pair);
  }

  /** Everything as if the proxy were not there, for new and, where they lost nothing, for open connections. */
  heal(): void {
    this.set({ up: 'forward', down: 'forward', delay: 0 });
  }

  /** Ends all connections: `rst` as a crashed peer does, `fin` as a polite one. New ones are still accepted. */
  cut(how: 'rst' | 'fin' = 'rst'): void {
    for (const { client, server } of this.pairs) {
      if (how === 'fin') client.end();
      else client.resetAndDestroy();
      server.destroy();
    }
  }

  /** New connections get ECONNREFUSED until {@link accept}; open ones stay. */
  async refuse(): Promise<void> {
    const listener = this.listener;
    this.listener = undefined;
    if (listener === undefined) return;
    await new Promise<void>((resolve) => {
      // `close` calls back when the last connection ended; the port is free at once.
      listener.close();
      resolve();
    });
  }

  async accept(): Promise<void> {
    if (this.listener !== undefined) return;
    const listener = createServer((client) => this.onConnection(client));
    this.listener = listener;
    listener.listen(this.port, this.host);
    await once(listener, 'listening');
    this.port = (listener.address() as { port: number }).port;
  }

  async close(): Promise<void> {
    await this.refuse();
    for (const timer of this.timers) clearTimeout(timer);
    for (const { client, server } of this.pairs) {
      client.destroy();
      server.destroy();
    }
  }

  private onConnection(client: Socket): void {
    this.accepted += 1;
    const server = connect(this.target);
    client.setNoDelay(true);
    server.setNoDelay(true);
    const pair: Pair = {
      client,
      server,
      up: { from: client, to: server, held: [], lossy: false, delayed: 0, due: 0 },
      down: { from: server, to: client, held: [], lossy: false, delayed: 0, due: 0 },
    };
    this.pairs.add(pair);
    client.on('data', (bytes) => this.pass(pair.up, this.up, bytes, (n) => (this.bytesUp += n)));
    server.on('data', (bytes) => this.pass(pair.down, this.down, bytes, (n) => (this.bytesDown += n)));
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.on('error', () => other.destroy());
      socket.on('end', () => other.end());
      socket.on('close', () => {
        other.destroy();
        this.pairs.delete(pair);
      });
    }
  }

  private pass(direction: Direction, flow: Flow, bytes: Buffer, count: (n: number) => void): void {
    if (flow === 'drop') direction.lossy = true;
    if (direction.lossy) return;
    if (flow === 'hold' || direction.held.length > 0) {
      direction.held.push(bytes);
      return;
    }
    const write = (): void => {
      count(bytes.length);
      if (direction.to.writable) direction.to.write(bytes);
    };
    if (this.delay === 0 && direction.delayed === 0) return write();
    direction.delayed += 1;
    direction.due = Math.max(direction.due, performance.now() + this.delay);
    const timer = setTimeout(() => {
      direction.delayed -= 1;
      this.timers.delete(timer);
      write();
    }, direction.due - performance.now());
    this.timers.add(timer);
  }

  private release(pair: Pair): void {
    for (const bytes of this.up === 'hold' ? [] : pair.up.held.splice(0)) {
      this.pass(pair.up, this.up, bytes, (n) => (this.bytesUp += n));
    }
    for (const bytes of this.down === 'hold' ? [] : pair.down.held.splice(0)) {
      this.pass(pair.down, this.down, bytes, (n) => (this.bytesDown += n));
    }
  }
}
