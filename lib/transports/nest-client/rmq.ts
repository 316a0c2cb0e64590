import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { OutboxMessage } from '../../outbox-message.js';
import { PUBLISHED, type PublishFailure, type PublishResult } from '../transport.js';
import { askBeforeWrites } from '../ask-before-writes.js';
import { blameForLostConnection, isNack } from './blame.js';
import type { NestClient } from './kind.js';
import { atMost, CLOSE_DEADLINE, ClientLink } from './link.js';
import { OutboxRmqRecord, unwrapRmqRecords } from './record.js';
import { cutSocket } from '../cut-socket.js';
import { rmqPlace } from './places.js';
import { blameFor } from '../amqp/blame.js';
import { closeReason, isOfExchange } from '../amqp/errors.js';
import { Recovery } from '../amqp/recovery.js';
import { nameOf } from '../amqp/names.js';

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
  readonly connection?: Model;
  close(): Promise<void>;
}
/** amqplib's. */
type Model = EventEmitter & { readonly connection?: { readonly stream?: Socket } };
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
  /** What each was emitted as. @internal */
  readonly records = new WeakMap<OutboxMessage, OutboxRmqRecord>();
  readonly watched = new WeakSet<ChannelWrapper>();
  /** Ends a connection that is still being opened, which nobody has a handle of. @internal */
  readonly opening = new AbortController();
  /** @internal */ readonly recovery: Recovery;
  /** @internal */ asksToWait = false;
  /** Why the manager has no connection at the moment. @internal */ lostBy: unknown;

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

  /** Whatever the record is: without options of ours nothing tells what was returned from what a queue took. */
  override emit(message: OutboxMessage, pattern: unknown, data: unknown): Promise<PublishResult> {
    // What a function forgot to return is left to Nest, which refuses it.
    if (data === undefined) return super.emit(message, pattern, data);
    const record = data instanceof OutboxRmqRecord ? data : new OutboxRmqRecord(message.id, data);
    this.records.set(message, record);
    return super.emit(message, pattern, record);
  }

  override async connect(): Promise<unknown> {
    const { client } = this;
    // Connected by the application before: it has a channel that we never saw, and whose errors have no owner.
    if (client.client !== null) await atMost(CLOSE_DEADLINE, this.letGo());
    this.refuseIfDead();
    unwrapRmqRecords(client);
    client.on('blocked', () => this.tell('blocked'));
    client.on('unblocked', () => this.tell('up'));
    client.on('connect', ({ connection }: { connection: Model }) => this.onConnection(connection));
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

  /** Nest's close() would wait for a silent broker, and then clear what a newer life has put in these places. @internal */
  async letGo(): Promise<void> {
    const { channel, manager } = this.takeOut();
    await Promise.allSettled([channel?.close(), manager?.close()]);
  }

  /** Nest's client is as before its connect, and nobody hears of the old connection. @internal */
  takeOut(): { channel: ChannelWrapper | null; manager: Manager | null } {
    const { client } = this;
    const { channel, client: manager } = client;
    client.channel = client.client = client.connectionPromise = null;
    client.handleClose?.();
    manager?.removeAllListeners().on('error', () => undefined);
    return { channel, manager };
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
    this.asksToWait = state === 'blocked';
    this.onState?.(state);
  }

  /** Who was told to wait hears of the end: nobody says `up` of a connection that is gone. @internal */
  override end(reason: unknown): Promise<void> {
    if (this.asksToWait) this.tell('down');
    return super.end(reason);
  }

  /** @internal */
  onConnection(model: Model): void {
    const stream = model.connection?.stream;
    if (stream === undefined || this.dead) return; // another life's
    askBeforeWrites(stream, () => !this.dead && !this.isTooLate());
    cutWhenLost(model, stream);
  }

  /** @internal The manager lost its connection, and makes another by itself. */
  onDisconnect(error: unknown): void {
    if (!this.dead) this.recovery.lost(closeReason(error).connection);
    this.lostBy = error;
    this.tell('down');
  }

  /** @internal The channel is there, again or for the first time; what waits for it goes out now. */
  onConnect(): void {
    if (!this.dead) this.recovery.connected();
    this.lostBy = undefined;
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
    for (const message of this.flights.keys()) {
      if (this.records.get(message)?.messageId === messageId) this.returned.set(message, fields);
    }
  }

  /** Not Nest's `close()`: it waits for the broker's answer, for ever if it is silent, and keeps its half-closed objects meanwhile. */
  override async destroy(reason: Error): Promise<void> {
    const { channel, manager } = this.takeOut();
    if (manager === null) return;
    const stream = manager.connection?.connection?.stream;
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
  /** Of every unconfirmed message amqplib says only that its channel was closed; why, the manager told just before. */
  override failure(error: unknown, pattern?: unknown): PublishResult {
    const isLost = this.lostBy !== undefined && closeReason(error).name === 'CHANNEL_ENDED';
    if (isLost) return blameForLostConnection(this.lostBy);
    return isNack(error)
      ? blameFor({ kind: 'nacked', ...this.destination(pattern) }, this.recovering)
      : super.failure(error);
  }
  /** All of a client goes to one exchange: what the broker says of that is true of each. */
  override lost(reason: unknown, pattern: unknown): PublishFailure {
    if (!isOfExchange(reason)) return super.lost(reason, pattern);
    return blameFor(
      { kind: 'channel-closed', error: reason, alone: true, ...this.destination(pattern) },
      this.recovering,
    );
  }
  /** @internal */
  destination(pattern: unknown): { destination: string } {
    const { exchange, routingKey } = rmqPlace(this.client, pattern);
    return { destination: nameOf(exchange, routingKey) };
  }
  override verdict(message: OutboxMessage): PublishResult {
    const returned = this.returned.get(message);
    if (returned === undefined) return PUBLISHED;
    this.returned.delete(message);
    const destination = nameOf(returned.exchange, returned.routingKey);
    return blameFor({ kind: 'unroutable', ...returned, destination }, this.recovering);
  }
}

/**
 * After a lost heartbeat amqplib ends the socket politely, and the kernel would still deliver what it holds, once the manager
 * has another connection and nobody a handle of this one.
 */
function cutWhenLost(model: Model, stream: Socket): void {
  model.on('error', (error: Error) => {
    cutSocket(stream);
    // Where amqplib closes for what it was sent, it waits for the broker's goodbye, which cannot come any more.
    queueMicrotask(() => stream.emit('error', error));
  });
}
