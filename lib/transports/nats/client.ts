import type { Socket } from 'node:net';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { abortable } from '../abortable.js';
import { cutSocket } from '../cut-socket.js';
import { loadPeer } from '../load-peer.js';
import type { NatsConnectionOptions } from './options.js';

/** The part of `@nats-io/transport-node` that is used. Own types, so that what is published compiles without it. */
export interface NatsConnection {
  publish(subject: string, payload: Uint8Array, options: { reply: string; headers: NatsHeaders }): void;
  subscribe(subject: string, options: { callback(error: Error | null, message: NatsMessage): void }): unknown;
  request(subject: string, payload: string, options: { timeout: number }): Promise<NatsMessage>;
  flush(): Promise<void>;
  close(): Promise<void>;
  closed(): Promise<void | Error>;
  status(): AsyncIterable<{ readonly type: string; readonly error?: Error }>;
  readonly info?: ServerInfo | undefined;
}
/** All that the client asks of headers that it sends. */
export interface NatsHeaders {
  encode(): Uint8Array;
}
export interface NatsMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly headers?: { readonly code: number };
  string(): string;
}
/** What a server says of itself when it lets a client in. */
export interface ServerInfo {
  readonly version: string;
  readonly server_name: string;
  readonly max_payload: number;
  readonly headers?: boolean;
  readonly cluster?: string;
}
export interface NatsModule {
  connect(options: object): Promise<NatsConnection>;
  createInbox(prefix?: string): string;
}

export async function loadNats(): Promise<NatsModule> {
  const load = (): Promise<unknown> => import('@nats-io/transport-node');
  const loaded = (await loadPeer('nats()', '@nats-io/transport-node', load)) as NatsModule & { default?: NatsModule };
  return loaded.default ?? loaded;
}

export interface OpenedConnection {
  readonly connection: NatsConnection;
  readonly socket: Socket;
  readonly inbox: string;
  /** Ends it at once: what the client, the socket or the kernel still holds is never sent. */
  destroy(): void;
}

/** A connection that ends when it is lost: the client would send again what it holds, to another server. */
export async function openConnection(
  nats: NatsModule,
  client: NatsConnectionOptions | (() => NatsConnectionOptions | Promise<NatsConnectionOptions>),
  signal: AbortSignal,
): Promise<OpenedConnection> {
  const given = typeof client === 'function' ? await abortable(Promise.resolve(client()), signal) : client;
  const connecting = nats.connect({ ...DEFAULTS, ...given, reconnect: false, waitOnFirstConnect: false });
  const connection = await abortable(connecting, signal, (late) => void late.close());
  const socket = socketOf(connection);
  const destroy = (): void => {
    if (socket !== undefined) cutSocket(socket);
    // Its timers end; the socket is gone, so nothing is flushed.
    connection.close().catch(() => undefined);
  };
  if (socket !== undefined && connection.info?.headers === true)
    return { connection, socket, inbox: nats.createInbox(given.inboxPrefix), destroy };
  destroy();
  const problem = socket === undefined ? 'this @nats-io/transport-node is none of 3.4' : 'the server has no headers';
  throw new OutboxConfigurationError('INVALID_OPTIONS', `nats(): ${problem}.`);
}

/** Milliseconds. A dead server is noticed after two to three pings. */
const DEFAULTS = { name: 'nestjs-outbox', timeout: 5_000, pingInterval: 10_000, maxPingOut: 2 };

/** No version promises it, and nothing else ends a connection for good. */
function socketOf(connection: NatsConnection): Socket | undefined {
  const { socket } = Object((connection as { protocol?: { transport?: object } }).protocol?.transport) as {
    socket?: Partial<Socket>;
  };
  return typeof socket?.write === 'function' && typeof socket.destroy === 'function' ? (socket as Socket) : undefined;
}
