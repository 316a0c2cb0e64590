import type { OutboxMessage } from '../../outbox-message.js';
import type { PublishFailure, PublishOk } from '../../transports/transport.js';

/** A failure, and the text of its error that may leave the process: the error itself is for the application's own functions alone. */
export interface Failure extends PublishFailure {
  readonly text: string;
}
export type Result = PublishOk | Failure;
/** May go; not now, and nobody is to blame; or what became of it already. */
export type Verdict = 'go' | 'later' | Failure;

/** Messages of one key that the transport publishes all or nothing. */
export interface Unit {
  readonly messages: readonly OutboxMessage[];
  readonly results: (Result | undefined)[];
  left: number;
}
/** Of a message that was out. `late`: it got through after its failure was reported; `withdrawn`: it was not sent after all. */
export type Answer = Result | 'late' | 'withdrawn';
export type OnAnswer = (index: number, answer: Answer) => void;
export type OnResult = (index: number, result: Result | 'late') => void;
export interface Batch {
  readonly messages: readonly OutboxMessage[];
  /** By index, for messages that are part of a run; absent for single ones. */
  readonly units: Map<number, { unit: Unit; index: number }> | undefined;
}
