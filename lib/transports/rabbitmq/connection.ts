import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { systemClock, within } from '../../time/clock.js';
import { misconfigured } from '../../outbox.errors.js';
import { abortable } from '../abortable.js';
import { askBeforeWrites } from '../ask-before-writes.js';
import { ENCODED } from '../broker-address.js';
import { cutSocket } from '../cut-socket.js';
import type { AmqpChannel, AmqpConnection, Amqplib } from './client.js';
import { FRAME_MAX, tableLimit } from '../amqp/limits.js';
import { isServer, type RabbitMqSettings, type RabbitMqUrl, type RabbitMqUrlProvider } from './options.js';

export interface ConnectionEvents {
  /** Before each write to the socket, which does not come about if this destroys the connection. */
  onWrite(): void;
  onBlocked(reason: string): void;
  onUnblocked(): void;
  /** Once, unless it was destroyed or closed from here. The socket is destroyed by then. */
  onLost(error: unknown): void;
}

/** One amqplib connection with an owner for every event of it. */
export class RabbitMqConnection {
  blocked: string | undefined;
  /** Why it was lost, in the words of the broker or the network. */
  lost: unknown;
  /** Bytes: as broker and client agreed on a size of frames, at the latest here. */
  readonly maxHeaderTable: number;
  ended = false;
  /** opened here and not closed */ private readonly channels = new Set<AmqpChannel>();
  private readonly writeFreely: (() => void) | undefined;
  private readonly listeners: Readonly<Record<string, (detail?: unknown) => void>>;

  /** @param own false: the application's, which a clean close leaves open */
  constructor(
    readonly model: AmqpConnection,
    readonly own: boolean,
    events: ConnectionEvents = NOBODY,
  ) {
    this.maxHeaderTable = tableLimit((model.connection as { frameMax?: number }).frameMax ?? FRAME_MAX);
    const socket = socketOf(model);
    this.writeFreely =
      socket &&
      askBeforeWrites(socket, () => {
        events.onWrite();
        return !socket.destroyed;
      });
    this.listeners = {
      error: (error) => {
        this.lost = error;
        this.onError();
      },
      blocked: (reason) => events.onBlocked((this.blocked = String(reason))),
      unblocked: () => {
        this.blocked = undefined;
        events.onUnblocked();
      },
      close: (error) => {
        this.lost = error ?? this.lost ?? new Error('The connection was closed.');
        if (this.ended) return;
        this.ended = true;
        // After a lost heartbeat amqplib ends the socket politely, and the kernel would still deliver what it holds.
        this.destroySocket();
        events.onLost(this.lost);
      },
    };
    for (const [event, listener] of Object.entries(this.listeners)) model.on(event, listener);
  }

  async openConfirmChannel(): Promise<AmqpChannel> {
    await this.leaving;
    return this.keep(this.model.createConfirmChannel());
  }

  /** For what must not take a channel of messages down with it. */
  async openChannel(): Promise<AmqpChannel> {
    await this.leaving;
    return this.keep(this.model.createChannel());
  }

  /** What is asked over it fails with the reason why it was lost: amqplib's is that the channel ended. */
  async answer<T>(question: Promise<T>): Promise<T> {
    try {
      return await question;
    } catch (error) {
      throw this.lost ?? error;
    }
  }

  /** At once and for good: nothing that waits in a buffer on this side is sent any more. */
  destroy(): void {
    if (this.ended) return;
    this.ended = true;
    this.destroySocket();
  }

  /** Politely; gives up after `timeout`. A connection of the application stays open. */
  async close(timeout: number): Promise<void> {
    if (this.ended) return;
    this.ended = true;
    const goodbyes = this.own ? [this.model.close()] : [...this.channels].map((channel) => channel.close());
    await within(systemClock, timeout, Promise.allSettled(goodbyes)); // how it ends is of no interest, only when
    if (this.own) return this.destroySocket();
    this.writeFreely?.();
    for (const [event, listener] of Object.entries(this.listeners)) this.model.removeListener(event, listener);
  }

  /** one that opens after the end is closed: the application's connection lives on */
  private async keep(opening: Promise<AmqpChannel>): Promise<AmqpChannel> {
    const channel = await this.answer(opening);
    // Whatever comes of it: an `error` without a listener ends the process.
    channel.on('error', () => (this.leaving = this.hasLeft(channel)));
    channel.on('close', () => this.channels.delete(channel));
    if (this.ended) channel.close().catch(ignore);
    else this.channels.add(channel);
    return channel;
  }

  /**
   * The broker closed it. amqplib gives its number to the next channel at once, whose first frame overtakes what is
   * in the buffer of this one: the broker ends the connection over a second `channel.open`.
   */
  private async hasLeft(channel: AmqpChannel): Promise<void> {
    const { channels } = this.model.connection as { channels?: Record<number, { buffer?: Readable } | null> };
    const buffer = channels?.[(channel as { ch?: number }).ch ?? -1]?.buffer;
    if (buffer === undefined) return;
    await within(systemClock, LEAVING, once(buffer, 'end').catch(ignore));
  }
  private leaving: Promise<void> | undefined;

  private destroySocket(): void {
    const socket = socketOf(this.model);
    if (socket === undefined) return void this.model.close().catch(ignore);
    cutSocket(socket);
    // A destroyed socket says only `close`, which amqplib does not listen to: it would beat its heart for ever.
    if (socket.listenerCount('error') > 0) socket.emit('error', new Error('The outbox destroyed the connection.'));
  }

  /** Every error is the end of a connection, and before amqplib ends the socket politely it can be reset. */
  private onError(): void {
    const socket = socketOf(this.model);
    if (socket !== undefined) cutSocket(socket);
    // amqplib says `close` next, except when it waits for the broker's goodbye, which cannot come any more.
    queueMicrotask(() => {
      if (!this.ended) this.destroySocket();
    });
  }
}

/**
 * Tries the servers in turn, beginning with `first`.
 * @param tried told of each before its turn: an attempt may be given up while one is silent, and the next begins behind it
 */
export async function openConnection(
  amqplib: Amqplib,
  settings: RabbitMqSettings,
  first: number,
  signal: AbortSignal,
  tried: (index: number) => void,
): Promise<AmqpConnection> {
  let failure: unknown;
  for (let n = 0; n < settings.servers.length; n++) {
    const index = (first + n) % settings.servers.length;
    tried(index);
    try {
      return await openOne(amqplib, settings, settings.servers[index]!, signal);
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
  }
  throw failure;
}

async function openOne(
  amqplib: Amqplib,
  settings: RabbitMqSettings,
  server: RabbitMqUrl | RabbitMqUrlProvider,
  signal: AbortSignal,
): Promise<AmqpConnection> {
  const address = typeof server === 'function' ? await providedBy(server, signal) : server;
  const { recovery: _, ...socket } = { ...(settings.socket as { recovery?: unknown }) };
  // amqplib's own recovery would reconnect behind the relay's circuit.
  // The signal is the socket's, and ends it also in the middle of amqplib's handshake.
  const options = {
    noDelay: true,
    keepAlive: true,
    timeout: settings.connectTimeout,
    ...socket,
    ...named(socket),
    signal,
  };
  const opening = amqplib.connect(tuned(address, settings.heartbeat), options);
  const late = (model: AmqpConnection): void => new RabbitMqConnection(model, true).destroy();
  try {
    return await abortable(opening, signal, late);
  } catch (error) {
    signal.throwIfAborted();
    throw namingServer(error, address);
  }
}

/** Which of several it was; behind amqplib's own text, by whose beginning its errors are told. Never a name or password. */
function namingServer(error: unknown, address: RabbitMqUrl): unknown {
  const server = serverOf(address);
  if (error instanceof Error && !error.message.includes(server)) error.message += ` (server ${server})`;
  return error;
}

/** For people: never a name or password. */
export function serverOf(address: RabbitMqUrl): string {
  if (typeof address !== 'string') {
    const { protocol = 'amqp', hostname = 'localhost', port } = address as { [name: string]: string | number };
    return `${hostname}:${port ?? (protocol === 'amqps' ? 5671 : 5672)}`;
  }
  const { protocol, hostname, port } = new URL(address);
  return `${hostname === '' ? 'localhost' : hostname}:${port === '' ? (protocol === 'amqps:' ? 5671 : 5672) : port}`;
}

async function providedBy(provider: RabbitMqUrlProvider, signal: AbortSignal): Promise<RabbitMqUrl> {
  const address = await abortable(Promise.resolve(provider()), signal);
  if (isServer(address)) return address;
  misconfigured(`rabbitmq: url() gave neither amqp://host nor an object; ${ENCODED}.`);
}

/** Shown by `rabbitmqctl list_connections` and the management pages. */
function named(socket: { clientProperties?: object }): { clientProperties: object } {
  return { clientProperties: { connection_name: 'nestjs-outbox', ...socket.clientProperties } };
}

/** What the URL does not say itself. */
function tuned(server: RabbitMqUrl, heartbeat: number): string | object {
  const settings = { heartbeat: Math.max(1, Math.round(heartbeat / 1000)), frameMax: FRAME_MAX };
  if (typeof server !== 'string') return { ...settings, ...server };
  const url = new URL(server);
  for (const [name, value] of Object.entries(settings))
    if (!url.searchParams.has(name)) url.searchParams.set(name, String(value));
  return url.href;
}

function socketOf(model: AmqpConnection): Socket | undefined {
  const { stream } = model.connection as { stream?: Socket };
  return typeof stream?.destroy === 'function' ? stream : undefined;
}

/** Milliseconds. */
const LEAVING = 1_000;

function ignore(): void {}
const NOBODY: ConnectionEvents = { onWrite: ignore, onBlocked: ignore, onUnblocked: ignore, onLost: ignore };
