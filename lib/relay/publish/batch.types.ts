import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishFailure, PublishOk } from '../../transports/transport.js';

/** A failure, and what may be said of its error, which is for the application's own functions alone. */
export interface ToldFailure extends PublishFailure {
  readonly text: string;
}
export type Result = PublishOk | ToldFailure;
/** May go; not now, and nobody is to blame; or what became of it already. */
export type Verdict = 'go' | 'later' | ToldFailure;

/** Messages of one key that the transport publishes all or nothing. */
export interface Unit {
  readonly messages: readonly OutboxMessage[];
  readonly results: (Result | undefined)[];
  left: number;
}
/** `late`: it got through after its failure was told, by a call that nobody waited for any more. */
export type OnResult = (index: number, result: Result | 'late') => void;
/** What is said about a message that was out. `withdrawn`: it was not sent after all, and nobody is to blame. */
export type Told = Result | 'late' | 'withdrawn';
export type OnTold = (index: number, told: Told) => void;
export interface Batch {
  readonly messages: readonly OutboxMessage[];
  /** By index, for messages that are part of a run; absent for single ones. */
  readonly units: Map<number, { unit: Unit; index: number }> | undefined;
}
