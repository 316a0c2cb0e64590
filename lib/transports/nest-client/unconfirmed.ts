import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import type { PublishResult } from '../transport.js';
import type { NestClient } from './kind.js';
import { ClientLink } from './link.js';
import { refusePromises } from './serializer.js';
import { cutSocket } from '../cut-socket.js';

/**
 * Clients whose server confirms nothing. Their own `close()` waits for an answer of the server, for ever if it is silent, and
 * keeps the old connection for the next `connect()` meanwhile. Here a death takes out what the client made, and cuts it.
 */
abstract class UnconfirmedLink<Made extends object> extends ClientLink {
  /** Of this life, also what is still being opened, which nobody else has a handle of. @internal */
  readonly made = new Set<Made>();
  /** @internal */ flushing: Promise<void> | undefined;
  /** Begins when {@link flushing} has ended. @internal */ nextFlush: Promise<void> | undefined;

  override async connect(): Promise<unknown> {
    this.refuseIfDead();
    if (!this.awaitsSerializer) refusePromises(this.client);
    const client = this.client as NestClient & Record<string, unknown>;
    const create = (Object.getPrototypeOf(client) as Record<string, unknown>)[this.factory];
    if (typeof create === 'function') {
      client[this.factory] = (...args: unknown[]): unknown => {
        const made: unknown = create.apply(client, args);
        return isThenable(made) ? made.then((one) => this.kept(one as Made)) : this.kept(made as Made);
      };
    }
    const connected = await super.connect();
    // Connected by the application, before there was a factory that tells.
    for (const one of this.parts()) this.kept(one);
    return connected;
  }

  /** @internal */
  kept(one: Made): Made {
    if (this.made.has(one)) return one;
    this.made.add(one);
    this.watch(one);
    if (this.dead) {
      void this.cut(one).catch(() => undefined);
      this.refuseIfDead();
    }
    return one;
  }

  override async destroy(): Promise<void> {
    const all = new Set([...this.made, ...this.parts()]);
    this.forget();
    await Promise.allSettled([...all].map((one) => this.cut(one)));
  }

  /** What the client took need not have left this process: it counts once a flush is through that began after it. */
  override complete(message: OutboxMessage, answer: unknown, settle: (result: PublishResult) => void): void {
    this.flushed().then(
      () => super.complete(message, answer, settle),
      (error: unknown) => void this.kill(error),
    );
  }

  /** One at a time, and all who come meanwhile share the next. @internal */
  flushed(): Promise<void> {
    this.nextFlush ??= (this.flushing ?? Promise.resolve()).then(() => {
      this.nextFlush = undefined;
      this.flushing = this.dead ? undefined : this.flush();
      return this.flushing;
    });
    return this.nextFlush;
  }

  /** Of the Nest client: whether its serializer may promise. @internal */
  readonly awaitsSerializer: boolean = false;
  /** Of the Nest client: the method that makes what has a socket. @internal */
  abstract readonly factory: string;
  /** What the Nest client has now. @internal */
  abstract parts(): Made[];
  /** The Nest client is as before its connect, and hears nothing more of the old connection. @internal */
  abstract forget(): void;
  /** Ends it without asking the server. @internal */
  abstract cut(one: Made): Promise<unknown>;
  /** @internal */
  async flush(): Promise<void> {}
  /** @internal */
  watch(_one: Made): void {}
}

/** Of ioredis. */
interface Redis extends EventEmitter {
  readonly status: string;
  readonly stream?: Socket;
  disconnect(): void;
}
interface RedisClient extends NestClient {
  pubClient: Redis | null;
  subClient: Redis | null;
  connectionPromise: unknown;
  isManuallyClosed: boolean;
  wasInitialConnectionSuccessful: boolean;
  handleClose?(): void;
}

/** Each publish is answered with the number of those who heard it. */
export class RedisLink extends UnconfirmedLink<Redis> {
  declare readonly client: RedisClient;
  readonly factory = 'createClient';

  parts(): Redis[] {
    return [this.client.pubClient, this.client.subClient].filter((one) => one !== null && one !== undefined);
  }
  forget(): void {
    const { client } = this;
    for (const one of [...this.made, ...this.parts()]) {
      for (const event of ['ready', 'reconnecting', 'end', 'error']) one.removeAllListeners(event);
      one.on('error', () => undefined);
    }
    client.pubClient = client.subClient = client.connectionPromise = null;
    client.isManuallyClosed = client.wasInitialConnectionSuccessful = false;
    client.handleClose?.();
  }
  async cut(one: Redis): Promise<unknown> {
    // Cut first: a socket that it has ended can be reset no more. It connects again unless it is told to disconnect.
    const closed = cutStream(one.stream);
    if (one.status !== 'end') one.disconnect();
    return closed;
  }
  /** What ioredis gave up for another reason than an answer it may still send. */
  override endsWith(error: unknown): boolean {
    return (error as Error | null | undefined)?.name !== 'ReplyError';
  }
}

/** Of mqtt.js. */
interface Mqtt extends EventEmitter {
  readonly stream?: Duplex;
  readonly disconnected?: boolean;
  end(force: boolean): unknown;
  sendPing?(): void;
}
interface MqttClient extends NestClient {
  mqttClient: Mqtt | null;
  connectionPromise: unknown;
  isInitialConnection: boolean;
  subscriptionsCount?: Map<string, number>;
  handleClose?(): void;
}

export class MqttLink extends UnconfirmedLink<Mqtt> {
  declare readonly client: MqttClient;
  readonly factory = 'createClient';
  /** Those of the client's own keepalive, too. @internal */ unanswered = 0;

  parts(): Mqtt[] {
    return this.client.mqttClient ? [this.client.mqttClient] : [];
  }
  forget(): void {
    const { client } = this;
    client.mqttClient = client.connectionPromise = null;
    client.isInitialConnection = false;
    client.subscriptionsCount?.clear();
    client.handleClose?.();
  }
  override watch(one: Mqtt): void {
    one.on('packetsend', ({ cmd }: { cmd: string }) => (this.unanswered += cmd === 'pingreq' ? 1 : 0));
    one.on('packetreceive', ({ cmd }: { cmd: string }) => (this.unanswered -= cmd === 'pingresp' ? 1 : 0));
    one.on('close', () => (this.unanswered = 0));
  }
  async cut(one: Mqtt): Promise<unknown> {
    const closed = cutStream(one.stream);
    if (!one.disconnected) one.end(true);
    return closed;
  }
  /** A server answers in turn: with a ping it has read what was before it, also at QoS 0. */
  override flush(): Promise<void> {
    const mqtt = this.client.mqttClient;
    if (typeof mqtt?.sendPing !== 'function') return super.flush();
    const sendPing = (): void => mqtt.sendPing?.();
    return new Promise((resolve, reject) => {
      let left = Infinity;
      const onPacket = ({ cmd }: { cmd: string }): void => {
        if (cmd === 'pingresp' && (left -= 1) === 0) end(resolve);
      };
      const onClose = (): void => end(() => reject(new OutboxError('TRANSPORT_UNAVAILABLE', 'Connection closed')));
      const end = (settle: () => void): void => {
        mqtt.off('packetreceive', onPacket).off('close', onClose);
        settle();
      };
      mqtt.on('packetreceive', onPacket).on('close', onClose);
      sendPing();
      left = this.unanswered;
    });
  }
}

/** Of NATS' client, before and since version 3. */
interface Nats {
  readonly protocol?: { readonly transport?: { readonly socket?: Socket; discard?(): void } };
  close(): Promise<void>;
  flush(): Promise<void>;
}
interface NatsClient extends NestClient {
  natsClient: Nats | null;
  connectionPromise: unknown;
  handleClose?(): void;
}

export class NatsLink extends UnconfirmedLink<Nats> {
  declare readonly client: NatsClient;
  override readonly awaitsSerializer = true;
  readonly factory = 'createClient';

  parts(): Nats[] {
    return this.client.natsClient ? [this.client.natsClient] : [];
  }
  forget(): void {
    const { client } = this;
    client.natsClient = client.connectionPromise = null;
    client.handleClose?.();
  }
  cut(one: Nats): Promise<unknown> {
    // Closed first: it would tell Nest's client of a lost connection, and make another.
    const closed = one.close();
    const transport = one.protocol?.transport;
    if (transport?.socket !== undefined) cutSocket(transport.socket);
    transport?.discard?.();
    return closed;
  }
  override async flush(): Promise<void> {
    await this.client.natsClient?.flush();
  }
}

/** Nest's JsonSocket, or the application's own class of sockets. */
interface Wrapped {
  readonly netSocket?: Socket;
}
interface TcpClient extends NestClient {
  socket: Wrapped | null;
  connectionPromise: unknown;
  handleClose?(): void;
}

export class TcpLink extends UnconfirmedLink<Wrapped> {
  declare readonly client: TcpClient;
  readonly factory = 'createSocket';

  parts(): Wrapped[] {
    return this.client.socket ? [this.client.socket] : [];
  }
  forget(): void {
    const { client } = this;
    client.socket = client.connectionPromise = null;
    client.handleClose?.();
  }
  cut(one: Wrapped): Promise<unknown> {
    return cutStream(one.netSocket);
  }
  /** Nothing is ever answered: here the kernel has it, or nothing more fits. */
  override flush(): Promise<void> {
    const socket = this.client.socket?.netSocket;
    if (socket === undefined) return super.flush();
    return new Promise((resolve, reject) => socket.write('', (error) => (error ? reject(error) : resolve())));
  }
}

/** @returns when the client below has heard of its end, or at once when it has already */
async function cutStream(stream: Duplex | undefined): Promise<void> {
  if (stream === undefined || stream.closed) return;
  const closed = new Promise<void>((resolve) => stream.once('close', () => resolve()));
  // A WebSocket is no socket.
  if ('resetAndDestroy' in stream) cutSocket(stream as Socket);
  else stream.destroy();
  await closed;
}
