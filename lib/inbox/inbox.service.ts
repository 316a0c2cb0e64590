import type { ReceivedMessage } from '../consumer/index.js';
import type { OutboxTransaction } from '../outbox-data-layer.js';
import type { Session } from '../transaction/data-layer.js';
import type { InboxCounts } from './counts.js';
import type { InboxMessage } from './identity.js';
import { once, type Effect, type InboxRuntime, type OnceOptions, type OnceOutcome } from './once.js';
import { receiveInto, type ReceiveOptions, type ReceiveOutcome } from './receive.js';
import { ageOf, statsOf, type InboxAge, type InboxStats } from './remembered.js';

/** Makes the effect of a message happen once, however often the message arrives. */
export class InboxService {
  /** Of the module that makes it. @internal */ readonly runtime!: InboxRuntime;

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
  once<T>(message: InboxMessage, work: Effect<T>): Promise<OnceOutcome<T>>;
  once<T>(message: InboxMessage, options: OnceOptions, work: Effect<T>): Promise<OnceOutcome<T>>;
  once<T>(message: InboxMessage, ...rest: [Effect<T>] | [OnceOptions, Effect<T>]): Promise<OnceOutcome<T>> {
    const [options, work] = rest.length === 1 ? [{}, rest[0]] : rest;
    return once(this.runtime, message, options, work);
  }

  /**
   * Stores a message in the application's own outbox, with its id, in place of handling it: acknowledge it to the broker when this has
   * resolved. Its `@OnOutboxEvent` handlers get it from there, in the order of its key, with the outbox's retries; when they end it is
   * a dead letter of the outbox, with its commands, metrics and health.
   *
   * @returns `duplicate`: it is or was there, within `retention.dedup` of the outbox
   * @throws OutboxConfigurationError `INVALID_OPTIONS`: the outbox has no transport `inProcess()`, or several and none is named
   */
  receive(message: ReceivedMessage, options: ReceiveOptions = {}): Promise<ReceiveOutcome> {
    return receiveInto(this.runtime.outbox, message, options);
  }

  /** The transaction of the effect around this call: of a handler with `@Idempotent()`. @throws OutboxTransactionRequiredError */
  get tx(): OutboxTransaction {
    const { current } = this.runtime;
    return ((current.scope.current() ?? current.require(undefined)) as Session).handle as OutboxTransaction;
  }

  /** By which the module and `@InjectInbox` know it. */
  get name(): string {
    return this.runtime.name;
  }

  /** What became of the messages that came to this process, by consumer. In memory: it asks nobody. */
  counts(): InboxCounts[] {
    return [...this.runtime.counts].map(([consumer, counts]) => ({ consumer, ...counts }));
  }

  /** For how long ids have been remembered: whether cleaners keep up. Reads one row of each table. */
  age(): Promise<InboxAge> {
    return ageOf(this.runtime);
  }

  /** Counts what is remembered, by consumer. Reads the whole table. */
  stats(): Promise<InboxStats[]> {
    return statsOf(this.runtime);
  }
}

export const serviceOf = (runtime: InboxRuntime): InboxService => Object.assign(new InboxService(), { runtime });
