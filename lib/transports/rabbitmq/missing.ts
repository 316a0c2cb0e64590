import type { ExpectedMessages, MissingDestination } from '../transport.js';
import { blameFor } from '../amqp/blame.js';
import type { AmqpChannel } from './client.js';
import { abortable } from '../abortable.js';
import { RabbitMqConnection } from './connection.js';
import { replyCodeOf } from '../amqp/errors.js';
import type { ConnectionSource, RabbitMqLink } from './link.js';
import type { RabbitMqSettings } from './options.js';
import { exchangeName, nameOf } from '../amqp/names.js';

/** An exchange; or a queue, which the default exchange finds by the routing key. */
export type Place = { readonly exchange: string } | { readonly queue: string };

/**
 * Asks for exchanges and queues without making them, over a connection of its own: a 404 closes the channel that asked, and a
 * login may be limited in channels. A connection that the application made is not asked over, and not by another one either.
 */
export async function lookFor(
  { connection, source, recovery }: Pick<RabbitMqLink, 'connection' | 'source' | 'recovery'>,
  settings: RabbitMqSettings,
  expected: readonly ExpectedMessages[],
  signal: AbortSignal,
): Promise<readonly PlaceAnswer[]> {
  const places = placesOf(settings, expected);
  if (places.size === 0 || connection?.own === false) return [];
  if (connection === undefined || recovery.isOn) throw new Error('RabbitMQ is unavailable, or was until a moment ago.');
  return (await askBeside(source, signal, (own) => look(own, places))) ?? [];
}

/**
 * Asks over a connection of its own, which ends with the question.
 * @returns `undefined`: there is only the application's connection, which is not asked over
 */
export async function askBeside<Answer>(
  source: ConnectionSource,
  signal: AbortSignal,
  ask: (connection: RabbitMqConnection) => Promise<Answer>,
): Promise<Answer | undefined> {
  const undo = (late: Awaited<ReturnType<ConnectionSource>>): void => {
    if (late.own) new RabbitMqConnection(late.model, true).destroy();
  };
  const { model, own } = await abortable(source(signal), signal, undo);
  if (!own) return undefined;
  const connection = new RabbitMqConnection(model, true);
  try {
    return await abortable(connection.answer(ask(connection)), signal);
  } finally {
    // A broker that asks to wait says no goodbye either.
    if (signal.aborted || connection.blocked !== undefined) connection.destroy();
    else await connection.close(CLOSE_TIMEOUT);
  }
}

/** By the names that a failed publish gives them. */
export function placesOf(
  { exchange, routingKey }: RabbitMqSettings,
  expected: readonly ExpectedMessages[],
): Map<string, Place> {
  const places = new Map<string, Place>();
  if (exchange !== '') places.set(exchangeName(exchange), { exchange });
  for (const { topic, options } of expected) {
    if (options === null) continue;
    const to = options.rabbitmq?.exchange ?? exchange;
    const queue = options.rabbitmq?.routingKey ?? (routingKey === undefined ? topic : undefined);
    if (places.size >= MOST) break;
    if (to !== '') places.set(exchangeName(to), { exchange: to });
    else if (queue !== undefined) places.set(nameOf('', queue), { queue });
  }
  return places;
}

/** What the broker answered about an exchange or a queue; `error`: what it closed the channel with, over this question. */
export interface PlaceAnswer {
  readonly destination: string;
  readonly place: Place;
  readonly error?: unknown;
  readonly reply?: unknown;
}

export async function look(connection: RabbitMqConnection, places: ReadonlyMap<string, Place>): Promise<PlaceAnswer[]> {
  const answers: PlaceAnswer[] = [];
  let channel: AmqpChannel | undefined;
  for (const [destination, place] of places) {
    channel ??= await connection.openChannel();
    const answer = await refusal(channel, place);
    if (answer.error !== undefined) channel = undefined; // closed by the refusal
    answers.push({ destination, place, ...answer });
  }
  await channel?.close(); // a login may have a right to one
  return answers;
}

export function missingOf({ destination, place, error }: PlaceAnswer): MissingDestination[] {
  if (replyCodeOf(error) !== NOT_FOUND) return [];
  const failure =
    'queue' in place
      ? blameFor({ kind: 'unroutable', exchange: '', routingKey: place.queue, replyCode: NO_ROUTE })
      : blameFor({ kind: 'channel-closed', error, alone: true, destination });
  return [{ destination, error: failure.error }];
}

/** The answer, or what closed the channel: there is none (404), no right to ask (403), somebody else's (405). @throws what is no answer */
async function refusal(
  channel: AmqpChannel,
  place: Place,
): Promise<{ readonly error?: unknown; readonly reply?: unknown }> {
  try {
    return {
      reply: await ('queue' in place ? channel.checkQueue(place.queue) : channel.checkExchange(place.exchange)),
    };
  } catch (error) {
    if (!OF_THE_PLACE.has(replyCodeOf(error) ?? 0)) throw error;
    return { error };
  }
}

export const NOT_FOUND = 404;
const NO_ROUTE = 312;
const OF_THE_PLACE = new Set([403, NOT_FOUND, 405, 406]);
/** Milliseconds. */
const CLOSE_TIMEOUT = 3_000;
/** Destinations that are asked about: each that is missing takes a channel. */
const MOST = 200;
