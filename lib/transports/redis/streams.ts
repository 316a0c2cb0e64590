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

/** Of a key: `none`, `stream`, another type; or that the login may not know. */
async function typeOf(client: RedisClient, stream: string): Promise<string> {
  return client.call('type', [stream]).then(String, (error: unknown) => {
    if (toFailure(error).code === 'NOPERM') return 'stream';
    throw error;
  });
}

/** Streams that take nothing. A stream that the first message makes is not missing. */
export async function findMissing(
  client: RedisClient,
  streams: readonly string[],
  createStreams: boolean,
): Promise<MissingDestination[]> {
  const types = await Promise.all(streams.map((stream) => typeOf(client, stream)));
  return types.flatMap((type, n) => {
    if (type === 'stream' || (type === 'none' && createStreams)) return [];
    const destination = streamName(streams[n]!);
    const failure =
      type === 'none'
        ? new RedisFailure('There is no such stream.', NO_STREAM)
        : new RedisFailure(`WRONGTYPE The key holds a ${type}.`);
    return [{ destination, error: judge(failure, undefined, destination).error }];
  });
}
