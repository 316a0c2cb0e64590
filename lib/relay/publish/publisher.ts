import { inCleanScope } from '../../time/async-scope.js';
import { stopwatch, within, type Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { errorText } from '../../observe/redact/error-text.js';
import { isPermanent, OutboxError } from '../../outbox.errors.js';
import { counted } from '../../observe/plural.js';
import type { OnResult, Result, Failure } from './batch.types.js';
import {
  MAX_PROGRESS,
  type OutboxTransport,
  type PublishFailure,
  type PublishResult,
  type TransportStateListener,
} from '../../transports/transport.js';

/** What a transport may take beyond its deadline to tear its connection down. */
const TEARDOWN = 1_000;
/** Milliseconds for a close that begins when the time of the stop is over. */
const CLOSING = 500;
/** What was reported of a message; 0: nothing. */
const PASSED = 1;
const FAILED = 2;

/**
 * Hands batches to one transport and sees to it that each ends: with one result per message, within the publish timeout,
 * whatever the transport does. A result without a verdict is a `transport` failure, and then the connection is torn down
 * before anybody hears of it: a rejected publish is dead.
 */
export class Publisher {
  private connecting: Promise<void> | undefined;
  connected = false;

  constructor(
    readonly transport: OutboxTransport,
    readonly clock: Clock,
    readonly timeout: number,
    /** Told by the transport what happens to its broker between two publishes. */
    private readonly onState?: TransportStateListener,
  ) {}

  /**
   * @param onResult called once per message, by its index, as soon as its result is known; once more with `late`, also after the
   * batch has ended, where it gets through after all
   * @param kill aborts what is under way: at a shutdown past its timeout, or when the messages are not ours any more
   */
  async publish(batch: readonly OutboxMessage[], onResult: OnResult, ...kill: AbortSignal[]): Promise<void> {
    const reported = new Uint8Array(batch.length);
    const sent = [...batch]; // where what is decrypted takes the place of what was read
    let left = batch.length;
    let open = true;
    const answer = (index: number, result: Result): void => {
      reported[index] = result.ok ? PASSED : FAILED;
      left -= 1;
      onResult(index, result);
    };
    const report = (index: number, result: PublishResult | undefined): void => {
      if (reported[index] === FAILED && result?.ok === true) {
        reported[index] = PASSED;
        return onResult(index, 'late');
      }
      // What is no result is none: the batch then ends with too few of them.
      if (!open || reported[index] !== 0 || typeof result?.ok !== 'boolean') return;
      answer(index, result.ok ? result : quotable(bounded(result), [sent[index]]));
    };
    const failRest = (failure: Failure): void => {
      for (let index = 0; left > 0 && index < batch.length; index += 1)
        if (reported[index] === 0) answer(index, failure);
      open = false;
    };
    let deadline: AbortSignal | undefined;
    try {
      const results = await this.bounded((signal) => this.send(sent, (deadline = signal), report), ...kill);
      results?.forEach((result, index) => reported[index] === 0 && report(index, result));
      if (left > 0)
        throw new OutboxError(
          'PUBLISH_REJECTED',
          `The transport returned no result for ${left} of ${counted(batch.length, 'message')}.`,
        );
      open = false;
    } catch (error) {
      if (left === 0) return;
      // It was not the connecting that failed, nor time: the transport broke over something in this batch, perhaps.
      const broke = this.connected && deadline?.aborted === false;
      await this.reset();
      failRest(quotable(thrown(error, left, broke), sent));
    }
  }

  /** Builds a new connection; rejects within the publish timeout when there is none to be had. */
  async reconnect(kill: AbortSignal): Promise<void> {
    await this.reset();
    await this.bounded((signal) => this.connect(signal), kill);
  }

  /** Connects before there is anything to publish; a publish meanwhile waits for the same attempt. Bounded as a publish is. */
  open(kill: AbortSignal): Promise<void> {
    return this.bounded(async (signal) => {
      if (!this.connected) await this.connect(signal);
    }, kill);
  }

  /** Destroys the connection. Never throws; bounded. */
  async reset(): Promise<void> {
    this.connected = false;
    this.connecting = undefined;
    await this.ended(TEARDOWN, () => this.transport.reset?.());
  }

  /** Never throws; destroys what does not close in time, which is a moment at least unless somebody hurries. */
  async close(deadline: Deadline): Promise<void> {
    this.connected = false; // whoever publishes after it connects again
    this.connecting = undefined;
    const closed = Promise.resolve().then(() => this.transport.close?.());
    const grace = Math.max(0, this.clock.monotonic() - deadline.at + CLOSING);
    if (!(await deadline.within(closed, grace))) await this.reset();
  }

  private async send(
    batch: OutboxMessage[],
    signal: AbortSignal,
    report: (index: number, result: PublishResult) => void,
  ): Promise<readonly PublishResult[] | void> {
    const elapsed = stopwatch(this.clock);
    if (!this.connected) await this.connect(signal);
    signal.throwIfAborted(); // a transport may connect in spite of it
    // The process stood still, or slept, while it connected; the lease may be over, and the timer comes too late.
    const timeout = this.timeout - elapsed();
    if (timeout <= 0) throw this.timedOut();
    // With encryption this decrypts first (`encryption/decrypt-payloads`).
    return this.transport.publish(batch, { signal, timeout, report });
  }

  private async connect(signal: AbortSignal): Promise<void> {
    if (this.transport.connect === undefined) {
      this.connected = true;
      return;
    }
    const attempt = (this.connecting ??= this.transport.connect(signal, this.onState));
    try {
      await attempt;
      // An attempt that a reset overtook says nothing about the connection that is there now.
      if (this.connecting === attempt) this.connected = true;
    } finally {
      if (this.connecting === attempt) this.connecting = undefined;
    }
  }

  /** Runs work until the publish timeout, then aborts it and gives it a moment to tear down. */
  private bounded<T>(work: (signal: AbortSignal) => Promise<T>, ...kill: AbortSignal[]): Promise<T> {
    const controller = new AbortController();
    return new Promise<T>((resolve, reject) => {
      let giveUp: (() => void) | undefined;
      const abort = (): void => {
        controller.abort(this.timedOut());
        giveUp ??= this.clock.after(TEARDOWN, () => done(() => reject(this.timedOut())));
      };
      const cancel = this.clock.after(this.timeout, abort);
      for (const each of kill) each.addEventListener('abort', abort, { once: true });
      const done = (settle: () => void): void => {
        cancel();
        giveUp?.();
        for (const each of kill) each.removeEventListener('abort', abort);
        settle();
      };
      if (kill.some(({ aborted }) => aborted)) abort();
      // `work` may throw synchronously: a transport's mistake is one failed publish.
      Promise.resolve()
        .then(() => inCleanScope(() => work(controller.signal)))
        .then(
          (value) => done(() => resolve(value)),
          (error: unknown) => done(() => reject(error as Error)),
        );
    });
  }

  private timedOut(): OutboxError {
    return new OutboxError('PUBLISH_TIMEOUT', `The transport did not finish within ${Math.round(this.timeout)} ms.`);
  }

  /** @returns whether the work ended in time, well or not */
  private ended(ms: number, work: () => void | Promise<void>): Promise<boolean> {
    return within(this.clock, ms, Promise.allSettled([Promise.resolve().then(work)]));
  }
}

/** What can never succeed is one message's fault: who it is, is known of the last one. */
function thrown(error: unknown, left: number, broke: boolean): PublishFailure {
  if (isPermanent(error)) return { ok: false, blame: left === 1 ? 'message' : 'collateral', error };
  return { ok: false, blame: 'transport', error, ...(broke && { suspect: 'message' }) };
}

/** The one place where an error of a transport or a handler gets the text that may leave the process: no later part needs to know what it may quote. */
function quotable(failure: PublishFailure, about: readonly unknown[]): Failure {
  return { ...failure, text: errorText(failure.error, about) };
}

function bounded(failure: PublishFailure): PublishFailure {
  if ((failure.progress ?? '').length <= MAX_PROGRESS) return failure;
  const { progress: _, ...rest } = failure;
  return rest;
}
