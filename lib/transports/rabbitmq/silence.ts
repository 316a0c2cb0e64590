import { createHash } from 'node:crypto';
import { systemClock } from '../../time/clock.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { nameOf } from '../amqp/names.js';

/** Where messages go: an exchange and a routing key. Known while something is unconfirmed, or nothing is confirmed. */
export class RabbitMqDestination {
  /** Unconfirmed messages, without those that were given up. */
  pending = 0;
  /** Monotonic: since then something is unconfirmed, and nothing was confirmed. */
  silentSince = 0;
  /** It confirmed nothing for {@link Silence.patience}: until it answers, nothing is sent to it but a question now and then. */
  isGuarded = false;
  /** A question is under way, or waits for its turn. */
  isAsked = false;
  /** Monotonic. */ private askAfter = -Infinity;

  constructor(
    readonly name: string,
    readonly exchange: string,
  ) {}

  sent(now: number): void {
    if (this.pending === 0) this.silentSince = now;
    this.pending += 1;
  }

  /** It confirmed, returned or refused something: it is there. */
  answered(now: number): void {
    this.silentSince = now;
    this.isGuarded = false;
  }

  /** @param now monotonic, where what it was sent may still be answered; else it is asked at once */
  guard(now = -Infinity): void {
    this.isGuarded = true;
    this.askAfter = now + ASK_EVERY;
  }

  mayBeAsked(now: number): boolean {
    return !this.isAsked && now >= this.askAfter;
  }

  /** What was sent to it went with its channel. */
  forget(): void {
    this.askAfter = -Infinity;
  }
}

/**
 * Which destinations confirm nothing while the broker answers: a quorum queue without its majority, for one. What the broker
 * has and does not confirm is given up after {@link patience}, without the connection, as the others are on it. Should the
 * confirm come later, the message counts as published at its next try, and is not sent a second time.
 */
export class Silence {
  /** Milliseconds. */
  patience = 0;
  private readonly destinations = new Map<string, RabbitMqDestination>();
  /** by message id: of what was confirmed late */ readonly confirmed = new Map<
    string,
    { digest: string; at: number }
  >();
  private cancel: (() => void) | undefined;

  /** @param look gives up what {@link isSilent}; absent: nobody is guarded */
  constructor(readonly look?: (now: number) => void) {}

  of(exchange: string, routingKey: string): RabbitMqDestination {
    const at = `${exchange}\n${routingKey}`;
    let found = this.destinations.get(at);
    if (found === undefined) {
      if (this.destinations.size >= MOST_DESTINATIONS) this.prune();
      this.destinations.set(at, (found = new RabbitMqDestination(nameOf(exchange, routingKey), exchange)));
    }
    return found;
  }

  /** From now on, as long as something is unconfirmed. */
  watch(): void {
    if (this.cancel !== undefined || this.look === undefined) return;
    const every = this.patience / 4;
    const due = systemClock.monotonic() + every;
    this.cancel = systemClock.after(every, () => {
      this.cancel = undefined;
      const now = systemClock.monotonic();
      let pending = false;
      let silent = false;
      for (const destination of this.destinations.values()) {
        if (destination.pending === 0) continue;
        pending = true;
        silent ||= this.isSilent(destination, now);
      }
      // In a process that stood still the timer comes before the confirms, which are in the socket.
      if (silent && now - due < every) this.look?.(now);
      if (pending) this.watch();
    });
  }

  /** @param timeout milliseconds that a publish has, or what is left of them: half of it at most is waited for one destination */
  within(timeout: number): void {
    this.patience = Math.max(this.patience, Math.min(MOST_PATIENCE, timeout / 2));
  }

  /** What is silent now may have stopped all of them: until it answers, it is sent little. */
  doubt(): void {
    if (this.look === undefined) return;
    const now = systemClock.monotonic();
    for (const destination of this.destinations.values()) if (this.isSilent(destination, now)) destination.guard();
  }

  /** A broker that asked to wait goes on: what it confirmed nothing of meanwhile has its time again. */
  restart(): void {
    const now = systemClock.monotonic();
    for (const destination of this.destinations.values()) destination.silentSince = now;
  }

  stop(): void {
    this.cancel?.();
    this.cancel = undefined;
  }

  isSilent({ pending, silentSince }: RabbitMqDestination, now: number): boolean {
    return pending > 0 && now - silentSince >= this.patience;
  }

  confirmedLate(id: string, digest: string): void {
    if (this.confirmed.size >= MOST_LATE) this.confirmed.delete(this.confirmed.keys().next().value as string);
    this.confirmed.set(id, { digest, at: systemClock.monotonic() });
  }

  /** Whether the broker confirmed this message after it had been given up. Said once. */
  wasConfirmed(message: OutboxMessage): boolean {
    const found = this.confirmed.get(message.id);
    if (found === undefined) return false;
    this.confirmed.delete(message.id);
    return systemClock.monotonic() - found.at < REMEMBERED && found.digest === digestOf(message);
  }

  /** Those to which nothing is under way. */
  private prune(): void {
    for (const [at, { pending, isGuarded }] of this.destinations)
      if (pending === 0 && !isGuarded) this.destinations.delete(at);
    if (this.destinations.size < MOST_DESTINATIONS) return;
    for (const [at, { pending }] of this.destinations) if (pending === 0) this.destinations.delete(at);
  }
}

/** Plain SQL can give two messages one id. */
export function digestOf({
  id,
  bucket,
  topic,
  key,
  createdText,
  headersJson,
  optionsJson,
  payload,
}: OutboxMessage): string {
  const hash = createHash('sha256');
  hash.update(JSON.stringify([id, bucket, topic, key, createdText, headersJson, optionsJson]));
  return hash.update(payload ?? '').digest('base64');
}

/** Milliseconds; less than half of the time for a publish. */
const MOST_PATIENCE = 2_000;
/** Milliseconds. What is unconfirmed on a channel that lives asks all the time; this is for all else. */
const ASK_EVERY = 10_000;
const MOST_DESTINATIONS = 10_000;
export const MOST_LATE = 10_000;
/** Milliseconds: longer than a message is put off. */
const REMEMBERED = 300_000;
