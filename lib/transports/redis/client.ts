import type { Socket } from 'node:net';
import { cutSocket } from '../cut-socket.js';
import { loadPeer } from '../load-peer.js';

/** The part of ioredis that is used: what 5 and 6 have in common. */
export interface RedisClient {
  /** Not there before the first attempt to connect. */
  readonly stream?: Socket;
  connect(): Promise<void>;
  call(command: string, args: RedisArgument[]): Promise<unknown>;
  disconnect(): void;
  on(event: 'error' | 'close' | 'end', listener: (error?: unknown) => void): unknown;
}
export type RedisArgument = string | number | Buffer;
export type RedisConstructor = new (...givenFirstWins: (string | object | undefined)[]) => RedisClient;

export async function loadIoredis(): Promise<RedisConstructor> {
  const { Redis } = await loadPeer('redis()', 'ioredis', () => import('ioredis'));
  return Redis as unknown as RedisConstructor;
}

/**
 * Whatever the application gives: a command is sent once, when it is called, and a connection that ended stays so. A command
 * that ioredis gives up by itself (`commandTimeout`, `socketTimeout`) may still arrive.
 */
export const OURS = {
  lazyConnect: true,
  retryStrategy: null,
  reconnectOnError: null,
  sentinelRetryStrategy: null,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  enableAutoPipelining: false,
  enableReadyCheck: false, // it asks by INFO, which a login may not be allowed
  commandTimeout: undefined,
  socketTimeout: undefined,
  disconnectTimeout: 500,
  keyPrefix: '',
  disableClientInfo: true, // its answers are thrown away, and why the server lets nobody in with them
  monitor: false,
  readOnly: false,
  replyMapping: 'legacy', // of ioredis 6: replies as 5 gives them
} as const;

/** Nothing that it holds, or that the kernel holds for it, is sent any more. */
export function kill(client: RedisClient): void {
  if (client.stream !== undefined) cutSocket(client.stream);
  client.disconnect();
}
