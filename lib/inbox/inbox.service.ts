import type { ReceivedMessage } from '../consumer/index.js';
import type { OutboxTransaction, TransactionHandle } from '../outbox-data-layer.js';
import type { InboxMessage } from './identity.js';
import type { ReceiveOptions, ReceiveOutcome } from './receive.js';

export interface OnceOptions {
  /** The transaction of the effect. Default: the one around this call; without one, a transaction of its own. */
  readonly tx?: TransactionHandle;
  /** Names the effect. Default: the module's. */
  readonly consumer?: string;
  /** Default: the module's. */
  readonly onConcurrent?: 'wait' | 'refuse';
  /**
   * Drops a message that is older than what was handled of its key: by a sequence of yours, such as the version of the row, or by `true`
   * for the time of the enqueue, by the clocks of the processes that enqueue.
   */
  readonly latest?: true | number | bigint | string;
}

/** What became of a message: only `handled` has run the effect. */
export type OnceOutcome<T> =
  | { readonly status: 'handled'; readonly result: T }
  /** It was handled before; with `latest`, it or something later of its key. */
  | { readonly status: 'duplicate' };

export interface InboxStats {
  readonly consumer: string;
  /** Messages that are remembered. */
  readonly messages: number;
  /** Repetitions of them. */
  readonly duplicates: number;
}

export type Effect<T> = (tx: OutboxTransaction) => Promise<T> | T;

/** Makes the effect of a message happen once, however often the message arrives. */
export abstract class InboxService {
  /**
   * Runs `work` unless this message was handled before by the same consumer. That it was is written in the transaction of the effect:
   * both are committed, or neither. `enqueue` inside `work` needs no transaction, and goes out with it.
   *
   * When `work` rejects, so does this, and the transaction can only be rolled back, to a savepoint from before it or as a whole: the
   * message is then as if it had never come. Acknowledge it to the broker after this has resolved, with `tx` after the commit.
   *
   * @param message anything that has its id: {@link InboxMessage}
   * @throws OutboxMessageError `INVALID_MESSAGE`: it has none
   * @throws OutboxError `IN_PROGRESS`, with `onConcurrent: 'refuse'`
   */
  abstract once<T>(message: InboxMessage, work: Effect<T>): Promise<OnceOutcome<T>>;
  abstract once<T>(message: InboxMessage, options: OnceOptions, work: Effect<T>): Promise<OnceOutcome<T>>;

  /**
   * Stores a message in the application's own outbox, with its id, in place of handling it: acknowledge it to the broker when this has
   * resolved. Its `@OnOutboxEvent` handlers get it from there, in the order of its key, with the outbox's retries; when they end it is
   * a dead letter of the outbox, with its commands, metrics and health.
   *
   * @returns `duplicate`: it is or was there, within `retention.dedup` of the outbox
   * @throws OutboxConfigurationError `INVALID_OPTIONS`: the outbox has no transport `inProcess()`, or several and none is named
   */
  abstract receive(message: ReceivedMessage, options?: ReceiveOptions): Promise<ReceiveOutcome>;

  /** The transaction of the effect around this call: of a handler with `@Idempotent()`. @throws OutboxTransactionRequiredError */
  abstract get tx(): OutboxTransaction;

  /** Counts what is remembered, by consumer. Reads the whole table. */
  abstract stats(): Promise<InboxStats[]>;
}
