import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishResult } from '../../transports/transport.js';

/** Messages of one key that the transport publishes all or nothing. */
export interface Unit {
  readonly messages: readonly OutboxMessage[];
  readonly results: (PublishResult | undefined)[];
  left: number;
}
/** `late`: it got through after its failure was told, by a call that nobody waited for any more. */
export type OnResult = (index: number, result: PublishResult | 'late') => void;
/** What is said about a message that was out. `withdrawn`: it was not sent after all, and nobody is to blame. */
export type Told = PublishResult | 'late' | 'withdrawn';
export type OnTold = (index: number, told: Told) => void;
export interface Batch {
  readonly messages: readonly OutboxMessage[];
  /** By index, for messages that are part of a run; absent for single ones. */
  readonly units: Map<number, { unit: Unit; index: number }> | undefined;
}
