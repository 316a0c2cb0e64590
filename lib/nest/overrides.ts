import type { Clock } from '../time/clock.js';
import type { NewMessage } from '../outbox-message.js';
import type { OutboxOptions } from '../outbox.options.js';
import type { OutboxStore } from '../store/outbox-store.js';

/** What tests change about an outbox, given under `overridesToken(name)`: see `overrideOutbox` in `nestjs-outbox/testing`. */
export interface OutboxOverrides {
  readonly clock?: Clock;
  readonly random?: () => number;
  /** Changes the options as the application gave them. */
  options?(given: OutboxOptions): OutboxOptions;
  /** Changes what the relay sees of the tables. */
  relayStore?(store: OutboxStore): OutboxStore;
  /** What was written in a transaction that is still open. */
  onEnqueued?(messages: readonly NewMessage[]): void;
  /** Ids of `onEnqueued` whose transaction was committed; called before `enqueued` reaches listeners. */
  onCommitted?(ids: readonly string[]): void;
  /** Ids of messages that were enqueued again, in a transaction that was committed. */
  onDeduplicated?(ids: readonly string[]): void;
  /** Ids of `onEnqueued` that are gone again, with their savepoint or their transaction. */
  onRolledBack?(ids: readonly string[]): void;
}
