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

/** Pure. Why a stream takes nothing, as far as the login may know. @param type the answer to TYPE, or why there is none */
function failureOf(type: unknown, createStreams: boolean): RedisFailure | undefined {
  if (type === 'stream' || (type === 'none' && createStreams)) return undefined;
  if (type === 'none') return new RedisFailure('There is no such stream.', NO_STREAM);
  if (!(type instanceof RedisFailure)) return new RedisFailure(`WRONGTYPE The key holds a ${String(type)}.`);
  if (type.code === 'NOPERM') return undefined;
  if (type.code === 'MOVED') return type;
  throw type;
}

/** Streams that take nothing. A stream that the first message makes is not missing. */
export async function findMissing(
  client: RedisClient,
  streams: readonly string[],
  createStreams: boolean,
): Promise<MissingDestination[]> {
  const types = await Promise.all(streams.map((stream) => client.call('type', [stream]).catch(toFailure)));
  return types.flatMap((type, n) => {
    const [failure, destination] = [failureOf(type, createStreams), streamName(streams[n]!)];
    return failure === undefined ? [] : [{ destination, error: judge(failure, undefined, destination).error }];
  });
}
