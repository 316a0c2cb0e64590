import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import { PUBLISHED, type OutboxTransport, type PublishFailure, type PublishResult } from '../transport.js';
import { failed } from '../failure.js';
import { blameForClient, suspectOf, wrapped } from './blame.js';
import { type EmitResult, kindOfClient, type NestClient } from './kind.js';
import { beginWithNext } from './servers.js';

/** How long a clean close may take before a connection is left to its destruction. */
export const CLOSE_DEADLINE = 2_000;

/** One message without an answer. */
interface Flight {
  /** What it was emitted with. */
  readonly pattern: unknown;
  readonly settle: (result: PublishResult) => void;
}

/**
 * One life of a Nest client's connection, from connect to death. Nest's clients go on sending after the caller gave up
 * (amqp-connection-manager republishes what was not confirmed, kafkajs retries), so nothing that failed without a
 * definite answer is reported before the connection is destroyed: {@link kill} first, then the results.
 */
export class ClientLink {
  dead = false;
  up = false;
  onState: OutboxTransport['onState'];
  /** Messages without an answer. Not by id: plain SQL can have inserted two with the same one. */
  readonly flights = new Map<OutboxMessage, Flight>();
  /** One for each publish: whether its time has passed, and if so it has killed this. */
  readonly underWay = new Set<() => boolean>();
  /** @internal */ killing: Promise<void> | undefined;

  /** @param _before the life before this one, whose connection was destroyed */
  constructor(
    readonly client: NestClient,
    _before?: ClientLink,
  ) {}

  async open(signal: AbortSignal): Promise<void> {
    try {
      await untilAborted(this.connect(), signal);
      this.up = true;
    } catch (error) {
      this.leaveServer();
      await this.kill(error);
      throw wrapped(error);
    }
  }

  emit(message: OutboxMessage, pattern: unknown, data: unknown): Promise<PublishResult> {
    return new Promise((resolve) => {
      const settle = (result: PublishResult): void => {
        if (this.flights.delete(message)) resolve(result);
      };
      this.flights.set(message, { pattern, settle });
      let value: unknown;
      try {
        // Hot: it is on its way before the subscription.
        observable(this.client.emit(pattern, data)).subscribe({
          next: (answer) => (value = answer),
          error: (error) => this.fail(error, { pattern, settle }),
          complete: () => this.complete(message, value, settle),
        });
      } catch (error) {
        this.fail(error, { pattern, settle });
      }
    });
  }

  /** Asked before each write to a socket. */
  isTooLate(): boolean {
    return [...this.underWay].some((isTooLate) => isTooLate());
  }

  /** @param _left milliseconds that the publish has */
  emitWithin(_left: () => number, ...emitted: Parameters<ClientLink['emit']>): Promise<PublishResult> {
    return this.emit(...emitted);
  }

  /** Destroys the connection, then gives every message without an answer a `transport` failure. */
  kill(reason: unknown): Promise<void> {
    this.killing ??= this.end(reason);
    return this.killing;
  }

  /** @internal */
  async end(reason: unknown): Promise<void> {
    this.dead = true;
    this.up = false;
    await atMost(CLOSE_DEADLINE, this.destroy(wrapped(reason)));
    this.flights.forEach(({ pattern, settle }) => settle(this.lost(reason, pattern)));
  }

  /** Given up meanwhile: Nest's client may belong to a newer life by now. @internal */
  refuseIfDead(): void {
    if (this.dead) throw new OutboxError('TRANSPORT_UNAVAILABLE', 'The connection was given up while it was opened.');
  }

  /** A silent broker never answers a close. */
  async close(): Promise<void> {
    if (!this.dead) await atMost(CLOSE_DEADLINE, Promise.resolve(this.client.close()));
    await this.kill(new OutboxError('TRANSPORT_UNAVAILABLE', 'The transport was closed.'));
  }

  /** @internal */
  fail(error: unknown, { pattern, settle }: Flight): void {
    if (this.dead) return; // the end of kill() settles it
    const failure = this.failure(error, pattern);
    if (!failure.ok && failure.blame === 'transport' && this.endsWith(error)) void this.kill(error);
    else settle(failure);
  }

  /** @internal */
  complete(message: OutboxMessage, answer: unknown, settle: (result: PublishResult) => void): void {
    settle(this.verdict(message, answer));
  }

  /**
   * No answer in time.
   * @param _since when the publish began, by the monotonic clock
   */
  expire(reason: unknown, _since: number): Promise<void> {
    if (!this.dead) this.leaveServer();
    return this.kill(reason);
  }

  // ── per kind of client ──────────────────────────────────────────────────────────────────────────────────────────

  connect(): Promise<unknown> {
    return Promise.resolve(this.client.connect());
  }
  /** Why the broker does not listen, for people. */
  get waitsFor(): string | undefined {
    return undefined;
  }
  /** Of several servers the next life asks another one first. */
  leaveServer(): void {
    beginWithNext(this.client);
  }
  /** Nothing may be sent after this. A client of the application's own has its close, and no more. */
  async destroy(_reason: Error): Promise<void> {
    await this.client.close();
  }
  /** Whether there is a connection that a message could be refused on. */
  get isOpen(): boolean {
    return true;
  }
  /** The broker came back a moment ago, and may not have found all that is its own yet. */
  get recovering(): boolean {
    return false;
  }
  /** @param _pattern what was emitted */
  failure(error: unknown, _pattern?: unknown): PublishResult {
    return blameForClient(kindOfClient(this.client), error, this.isOpen, this.recovering);
  }
  /** Of what had no answer when the connection was destroyed for this reason. */
  lost(reason: unknown, _pattern: unknown): PublishFailure {
    return failed('transport', wrapped(reason), { suspect: suspectOf(reason) });
  }
  /** Whether a `transport` failure leaves the connection in doubt. */
  endsWith(_error: unknown): boolean {
    return false;
  }
  verdict(_message: OutboxMessage, _answer: unknown): PublishResult {
    return PUBLISHED;
  }
}

/** A promise in its place may reject, which nobody would hear. */
function observable(emitted: EmitResult | PromiseLike<unknown> | undefined): EmitResult {
  if (typeof (emitted as EmitResult | undefined)?.subscribe === 'function') return emitted as EmitResult;
  if (isThenable(emitted)) Promise.resolve(emitted).catch(() => undefined);
  throw new OutboxError(
    'TRANSPORT_UNAVAILABLE',
    'emit() of this client gives no Observable, so nothing tells of its end.',
  );
}

export async function atMost(milliseconds: number, work: Promise<unknown>): Promise<void> {
  const deadline = AbortSignal.timeout(milliseconds);
  await untilAborted(work, deadline).catch(() => undefined);
}

export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
