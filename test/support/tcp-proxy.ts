import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { freePort } from '../../bench/support/own-server.js';

/**
 * What happens to the bytes of one direction.
 * - `forward`: at once, or after `delay`.
 * - `hold`: kept, in order, and delivered when the direction goes back to `forward` (a network that stalls).
 * - `drop`: read and thrown away (a request or a reply that got lost). A connection that lost bytes never carries any
 *   again in that direction: a hole in the middle of a stream is nothing a network can do.
 */
export type Flow = 'forward' | 'hold' | 'drop';

/** What becomes of the bytes of one connection before they go on; state of its own, so one for each connection. */
export interface Interceptor {
  up(bytes: Buffer): Buffer;
  down(bytes: Buffer): Buffer;
}
const AS_IT_IS: Interceptor = { up: (bytes) => bytes, down: (bytes) => bytes };

interface Direction {
  readonly side: 'up' | 'down';
  readonly from: Socket;
  readonly to: Socket;
  readonly held: Buffer[];
  lossy: boolean;
  /** Chunks that wait for their delay, in order; one timer for all of them, as two could fire in any order. */
  readonly delayed: { readonly due: number; readonly act: () => void }[];
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
  /** Bytes that were forwarded, and connections accepted, since the start. */
  bytesUp = 0;
  bytesDown = 0;
  accepted = 0;
  /** Of these, the ones that their client ended or reset. */
  left = 0;
  /** For connections from now on. */
  intercept: () => Interceptor = () => AS_IT_IS;
  private up: Flow = 'forward';
  private down: Flow = 'forward';
  private delay = 0;
  private listener: Server | undefined;
  private readonly pairs = new Set<Pair>();
  private readonly timers = new Set<NodeJS.Timeout>();

  private constructor(
    readonly port: number,
    private target: { host: string; port: number },
    private readonly silent: boolean,
  ) {}

  /**
   * `target`: `host:port` or a URL. `silent`: while bytes of a direction are dropped, the end of the connection is too,
   * and neither side hears of the other's.
   */
  static async start(target: string, { silent = false } = {}): Promise<TcpProxy> {
    const proxy = new TcpProxy(await freePort(), addressOf(target), silent);
    await proxy.accept();
    return proxy;
  }

  /** New connections go there; open ones stay where they are. */
  lead(target: string): void {
    this.target = addressOf(target);
  }

  /** Connections that are open now. */
  get open(): number {
    return this.pairs.size;
  }

  /** Bytes from the client that are kept back. */
  get heldUp(): number {
    return this.held('up');
  }

  /** Bytes from the server that are kept back. */
  get heldDown(): number {
    return this.held('down');
  }

  private held(side: 'up' | 'down'): number {
    const chunks = [...this.pairs].flatMap((pair) => pair[side].held);
    return chunks.reduce((bytes, { length }) => bytes + length, 0);
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

  /** Of the open connections nothing more is read, so that what clients write stays with them, in buffers of their kernels. */
  stall(): void {
    for (const { client } of this.pairs) client.pause();
  }

  resume(): void {
    for (const { client } of this.pairs) client.resume();
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
    const listener = createServer({ allowHalfOpen: this.silent }, (client) => this.onConnection(client));
    this.listener = listener;
    listener.listen(this.port, this.host);
    await once(listener, 'listening');
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
    const server = connect({ ...this.target, allowHalfOpen: this.silent });
    client.setNoDelay(true);
    server.setNoDelay(true);
    const pair: Pair = {
      client,
      server,
      up: { side: 'up', from: client, to: server, held: [], lossy: false, delayed: [] },
      down: { side: 'down', from: server, to: client, held: [], lossy: false, delayed: [] },
    };
    this.pairs.add(pair);
    let hasLeft = false;
    for (const event of ['end', 'error'] as const)
      client.on(event, () => {
        if (!hasLeft) this.left += 1;
        hasLeft = true;
      });
    const interceptor = this.intercept();
    client.on('data', (bytes) => this.pass(pair.up, this.up, interceptor.up(bytes), (n) => (this.bytesUp += n)));
    server.on('data', (bytes) =>
      this.pass(pair.down, this.down, interceptor.down(bytes), (n) => (this.bytesDown += n)),
    );
    for (const direction of [pair.up, pair.down]) {
      const { from, to } = direction;
      const isHeard = (): boolean => !this.silent || !this.drops(direction);
      const heard = (act: () => void): void => {
        if (isHeard()) this.inTurn(direction, act);
      };
      from.on('error', () => (isHeard() ? to.destroy() : undefined));
      from.on('end', () => heard(() => to.end()));
      from.on('close', () =>
        heard(() => {
          to.destroy();
          this.pairs.delete(pair);
        }),
      );
    }
  }

  private drops(direction: Direction): boolean {
    return this[direction.side] === 'drop' || direction.lossy;
  }

  private pass(direction: Direction, flow: Flow, bytes: Buffer, count: (n: number) => void): void {
    if (flow === 'drop') direction.lossy = true;
    if (direction.lossy) return;
    if (flow === 'hold' || direction.held.length > 0) {
      direction.held.push(bytes);
      return;
    }
    this.inTurn(direction, () => {
      count(bytes.length);
      if (direction.to.writable) direction.to.write(bytes);
    });
  }

  /** Bytes, and the end of them, arrive in the order in which they were sent. */
  private inTurn({ delayed }: Direction, act: () => void): void {
    if (this.delay === 0 && delayed.length === 0) return act();
    const due = Math.max(delayed.at(-1)?.due ?? 0, performance.now() + this.delay);
    if (delayed.push({ due, act }) === 1) this.deliver(delayed);
  }

  /** The first of those that wait, when it is due; then the next. */
  private deliver(delayed: Direction['delayed']): void {
    const [first] = delayed;
    if (first === undefined) return;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      for (const now = performance.now() + 1; (delayed[0]?.due ?? Infinity) <= now;) delayed.shift()?.act();
      this.deliver(delayed);
    }, first.due - performance.now());
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

function addressOf(target: string): { host: string; port: number } {
  const url = new URL(target.includes('://') ? target : `tcp://${target}`);
  return { host: url.hostname, port: Number(url.port) };
}
