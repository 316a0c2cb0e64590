import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { OutboxMessage } from '../../message.js';
import { PUBLISHED, type PublishResult } from '../transport.js';
import type { NestClient } from './client-proxy-kind.js';
import { ClientLink } from './client-proxy-link.js';
import { unwrapRmqRecords } from './client-proxy-record.js';
import { cutSocket } from './cut-socket.js';
import { blameFor } from './rabbitmq-blame.js';
import { closeReason } from './rabbitmq-errors.js';
import { Recovery } from './rabbitmq-recovery.js';

/** The protected half of ClientRMQ, and the parts of amqp-connection-manager and amqplib that hang below it. */
interface RmqClient extends NestClient {
  client: Manager | null;
  channel: ChannelWrapper | null;
  connectionPromise: unknown;
  on(event: string, callback: (event: never) => void): void;
  createChannel?(): Promise<void>;
  handleClose?(): void;
}
interface Manager extends EventEmitter {
  connectionOptions?: object;
  reconnectTimeInSeconds: number;
  readonly connection?: { readonly connection?: { readonly stream?: Socket } };
  close(): Promise<void>;
}
interface ChannelWrapper extends EventEmitter {
  addSetup(setup: (channel: EventEmitter) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

interface Returned {
  readonly properties: { readonly messageId?: string };
  readonly fields: { readonly exchange: string; readonly routingKey: string; readonly replyCode: number };
}

/**
 * ClientRMQ publishes on a confirm channel of amqp-connection-manager, which keeps what was not confirmed and publishes
 * it again after a reconnect. Added here: returned messages are failures, a channel's errors have an owner (without one
 * they end the process), a broker that was away is not believed at once, and a death that is one.
 */
export class RmqLink extends ClientLink {
  declare readonly client: RmqClient;
  /** What the broker returned; the confirm follows. */
  readonly returned = new WeakMap<OutboxMessage, Returned['fields']>();
  readonly watched = new WeakSet<ChannelWrapper>();
  /** Ends a connection that is still being opened, which nobody has a handle of. @internal */
  readonly opening = new AbortController();
  /** @internal */ readonly recovery: Recovery;

  constructor(client: NestClient, before?: ClientLink) {
    super(client);
    this.recovery = before instanceof RmqLink ? before.recovery : new Recovery();
  }

  override async open(signal: AbortSignal): Promise<void> {
    try {
      await super.open(signal);
      this.recovery.connected();
    } catch (error) {
      this.recovery.lost(closeReason(error).channel);
      throw error;
    }
  }

  override async connect(): Promise<unknown> {
    const { client } = this;
    // Connected by the application before: it has a channel that we never saw, and whose errors have no owner.
    if (client.client !== null) await client.close();
    unwrapRmqRecords(client);
    client.on('blocked', () => this.tell('blocked'));
    client.on('unblocked', () => this.tell('up'));
    client.on('disconnect', ({ err }: { err?: unknown }) => this.onDisconnect(err));
    return new Promise((resolve, reject) => {
      this.watchChannels(reject);
      client.connect().then(() => {
        this.watch(client.channel, reject);
        resolve(undefined);
      }, reject);
      // Made by now, and read when the manager opens its socket, a microtask later; `net.connect` knows `signal`.
      const manager = client.client as Manager | null;
      if (manager !== null) {
        manager.connectionOptions = { ...manager.connectionOptions, signal: this.opening.signal };
      }
    });
  }

  /** Nest makes two channels per connection and keeps one; both are set up, and both can fail. @internal */
  watchChannels(reject: (error: unknown) => void): void {
    const { client } = this;
    const create = (Object.getPrototypeOf(client) as RmqClient).createChannel;
    if (create === undefined) return;
    client.createChannel = () => {
      const created = create.call(client);
      this.watch(client.channel, reject);
      return created;
    };
  }

  /** @internal */
  tell(state: 'up' | 'down' | 'blocked'): void {
    if (this.dead) return;
    this.up = state === 'up';
    this.onState?.(state);
  }

  /** @internal The manager lost its connection, and makes another by itself. */
  onDisconnect(error: unknown): void {
    if (!this.dead) this.recovery.lost(closeReason(error).connection);
    this.tell('down');
  }

  /** @internal The channel is there, again or for the first time; what waits for it goes out now. */
  onConnect(): void {
    if (!this.dead) this.recovery.connected();
    this.tell('up');
  }

  /** @internal */
  watch(channel: ChannelWrapper | null, reject: (error: unknown) => void): void {
    if (channel === null || this.dead || this.watched.has(channel)) return;
    this.watched.add(channel);
    const onError = (error: unknown): void => {
      reject(error);
      void this.kill(error);
    };
    channel.on('error', onError);
    channel.on('connect', () => this.onConnect());
    const setup = channel.addSetup(async (amqp) => {
      amqp.on('error', onError);
      amqp.on('return', (returned: Returned) => this.onReturn(returned));
    });
    setup.catch(onError);
  }

  /** A return tells its message by the id only: of several that have it, none counts as stored. @internal */
  onReturn({ fields, properties: { messageId } }: Returned): void {
    for (const message of this.flights.keys()) if (message.id === messageId) this.returned.set(message, fields);
  }

  /** Not Nest's `close()`: it waits for the broker's answer, for ever if it is silent, and keeps its half-closed objects meanwhile. */
  override async destroy(reason: Error): Promise<void> {
    const { client } = this;
    const { channel, client: manager } = client;
    client.channel = client.client = client.connectionPromise = null;
    client.handleClose?.();
    if (manager === null) return;
    const stream = manager.connection?.connection?.stream;
    manager.removeAllListeners().on('error', () => undefined);
    // Rejects what was not confirmed and stops listening for reconnects.
    channel?.close().catch(() => undefined);
    await Promise.resolve();
    if (stream !== undefined) cutSocket(stream, reason);
    manager.reconnectTimeInSeconds = 0; // it waits that long, and keeps the process, before it finds that it is closed
    this.opening.abort(reason);
    manager.close().catch(() => undefined);
  }

  override get isOpen(): boolean {
    return this.client.channel !== null;
  }
  override get recovering(): boolean {
    return this.recovery.isOn;
  }
  override verdict(message: OutboxMessage): PublishResult {
    const returned = this.returned.get(message);
    if (returned === undefined) return PUBLISHED;
    this.returned.delete(message);
    return blameFor({ kind: 'unroutable', ...returned }, this.recovering);
  }
}
