import { systemClock } from '../../time/clock.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishContext, PublishResult } from '../transport.js';
import type { RabbitMqTrouble } from '../amqp/blame.js';
import { type RabbitMqDestination } from './silence.js';
import { exchangeName } from '../amqp/names.js';

/**
 * Destinations over which the broker closes the channel: an exchange that there is not, or without a right. A message to one
 * goes over the second channel, where it takes nobody down with it; what was in line meanwhile is not sent.
 */
export class Refusals {
  /** by name */ private readonly known = new Map<string, { readonly trouble: RabbitMqTrouble; readonly at: number }>();

  get size(): number {
    return this.known.size;
  }

  note(name: string, trouble: RabbitMqTrouble): void {
    this.known.delete(name); // the last one stands at the end
    this.known.set(name, { trouble, at: systemClock.monotonic() });
    if (this.known.size > MOST) this.known.delete(this.known.keys().next().value as string);
  }

  /** @param now monotonic, where it may be tried again after a moment; `undefined`: not here */
  of({ name, exchange }: RabbitMqDestination, now?: number): RabbitMqTrouble | undefined {
    if (this.known.size === 0) return undefined;
    const found = this.known.get(exchangeName(exchange)) ?? this.known.get(name);
    return found === undefined || (now !== undefined && now - found.at >= AGAIN) ? undefined : found.trouble;
  }

  areGone(names: readonly string[]): void {
    for (const name of names) this.known.delete(name);
  }

  /** By their indexes those that may close the channel, and all of their keys: a key is in one line. */
  among(
    batch: readonly OutboxMessage[],
    namesOf: (message: OutboxMessage) => readonly string[],
  ): ReadonlySet<number> | undefined {
    if (this.known.size === 0) return undefined;
    const refused = batch.map((message) => namesOf(message).some((name) => this.known.has(name)));
    const keys = new Set(batch.flatMap(({ key }, index) => (refused[index] === true && key !== null ? [key] : [])));
    const isApart = ({ key }: OutboxMessage, index: number): boolean =>
      refused[index] === true || (key !== null && keys.has(key));
    return new Set(batch.flatMap((message, index) => (isApart(message, index) ? [index] : [])));
  }
}

type Part = (batch: readonly OutboxMessage[], context: PublishContext, isApart: boolean) => Promise<void>;

/** Publishes some of a batch by themselves, beside the others. Each message is reported, by its index in the whole. */
export async function publishApart(
  batch: readonly OutboxMessage[],
  apart: ReadonlySet<number> | undefined,
  context: PublishContext,
  publish: Part,
): Promise<void> {
  if (apart === undefined || apart.size === 0 || apart.size === batch.length)
    return publish(batch, context, apart !== undefined && apart.size > 0);
  const part = async (isApart: boolean): Promise<void> => {
    const indexes = [...batch.keys()].filter((index) => apart.has(index) === isApart);
    const report = (n: number, result: PublishResult): void => context.report(indexes[n] as number, result);
    const messages = indexes.map((index) => batch[index] as OutboxMessage);
    await publish(messages, { ...context, report }, isApart);
  };
  await Promise.all([part(false), part(true)]);
}

/** The broker took it, or said so little against the destination as that no queue takes it. */
export function isThere(result: PublishResult): boolean {
  if (result.ok) return true;
  const { reason } = result.error as { readonly reason?: RabbitMqTrouble['kind'] };
  return reason === 'unroutable' || reason === 'nacked';
}

const MOST = 1_000;
/** Milliseconds; the relay waits longer from one try to the next. */
const AGAIN = 200;
