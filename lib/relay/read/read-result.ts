import type { OutboxMessage } from '../../outbox-message.js';
import type { FetchResult } from '../../store/ready-store.js';

/** What one read of the ready table brought. */
export interface ReadResult {
  /** Not seen before, per bucket in the order of `seq`. */
  readonly messages: readonly OutboxMessage[];
  readonly durable: boolean;
  /** Whether the head fetch returned as many rows as it might: more are waiting. */
  readonly more: boolean;
  /** All that was concluded from earlier reads is void: another connection, perhaps to another server, or numbers that went back. */
  readonly startedOver?: boolean;
  /** And by another server, perhaps. It need not have what was read of the other one, and is not published yet. */
  readonly otherServer?: boolean;
}

export interface Fetched extends FetchResult {
  /** Milliseconds. */
  readonly took: number;
}
