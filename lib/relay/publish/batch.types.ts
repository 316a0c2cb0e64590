import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishResult } from '../../transports/transport.js';

/** Messages of one key that the transport publishes all or nothing. */
export interface Unit {
  readonly messages: readonly OutboxMessage[];
  readonly results: (PublishResult | undefined)[];
  left: number;
}
export type OnResult = (index: number, result: PublishResult) => void;
export interface Batch {
  readonly messages: readonly OutboxMessage[];
  /** By index, for messages that are part of a run; absent for single ones. */
  readonly units: Map<number, { unit: Unit; index: number }> | undefined;
}
