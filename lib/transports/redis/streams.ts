import type { ExpectedMessages, MissingDestination } from '../transport.js';
import { kill, type RedisClient } from './client.js';
import { judge, NO_STREAM, RedisFailure, toFailure } from './errors.js';

export const streamName = (stream: string): string => `stream "${stream}"`;

/** @returns the names, each once */
export function streamsOf(expected: readonly ExpectedMessages[], prefix: string, most: number): string[] {
  return [...new Set(expected.map(({ topic }) => prefix + topic))].slice(0, most);
}

/** Asks over a connection of its own, which ends with the question. */
export async function askBeside<Answer>(
  open: (signal: AbortSignal) => Promise<RedisClient>,
  signal: AbortSignal,
  ask: (client: RedisClient) => Promise<Answer>,
): Promise<Answer> {
  const client = await open(signal);
  const abort = (): void => kill(client);
  signal.addEventListener('abort', abort);
  try {
    return await ask(client);
  } catch (error) {
    throw toFailure(error);
  } finally {
    signal.removeEventListener('abort', abort);
    kill(client);
  }
}

/** What a stream is at the server: `none`, `stream`, another type, or why it does not tell. */
export async function typeOf(client: RedisClient, stream: string): Promise<string | RedisFailure> {
  const refused = (error: unknown): RedisFailure => {
    const failure = toFailure(error);
    if (failure.isReply) return failure;
    throw failure;
  };
  return client.call('type', [stream]).then(String, refused);
}

/** Streams that take nothing. A stream that the first message makes is not missing. */
export async function findMissing(
  client: RedisClient,
  streams: readonly string[],
  createStreams: boolean,
): Promise<MissingDestination[]> {
  const types = await Promise.all(streams.map((stream) => typeOf(client, stream)));
  return types.flatMap((type, n) => {
    if (typeof type !== 'string' || type === 'stream' || (type === 'none' && createStreams)) return [];
    const destination = streamName(streams[n]!);
    const failure =
      type === 'none'
        ? new RedisFailure('There is no such stream.', NO_STREAM)
        : new RedisFailure(`WRONGTYPE The key holds a ${type}.`);
    return [{ destination, error: judge(failure, undefined, destination).error }];
  });
}
