import type { Duration, MessageOptions } from '../outbox-message.js';
import type { TransactionHandle } from '../outbox.options.js';
import type { HeadersInput } from './events/event-metadata.js';

/** How a message differs from what its class, or the plain message, says. */
export interface MessageSettings {
  /** RFC 9562 UUIDv7. Enqueued a second time, it is an `OutboxDuplicateMessageError`. Default: a new one. */
  id?: string;
  /** Enqueued a second time with the same key, nothing is written and the first message's id is returned. Not with `id`. */
  dedupKey?: string;
  /** Several: one message for each, with one id. */
  transport?: string | readonly string[];
  /** Not before this instant. Not with `delay`. */
  deliverAt?: Date;
  /** Not before this long after the enqueue, by the database's clock; a fraction of a millisecond is rounded up. Not with `deliverAt`. */
  delay?: Duration;
  /** `null`: unordered. `undefined` or empty is refused: it would lose the order in silence. */
  key?: string | null;
  headers?: HeadersInput;
  options?: MessageOptions;
}

export interface EnqueueOptions extends MessageSettings {
  /** The transaction to write in. Default: the one of `outbox.transaction`, `outbox.bind` or `currentManager`. */
  manager?: TransactionHandle;
}

/** `enqueue(message, { report: true })`: what became of a message, instead of its id alone. */
export interface ReportOption {
  report: true;
}
export interface EnqueueReport {
  /** Of the message; of a duplicate, of the one that was enqueued before with the same `dedupKey`. */
  readonly id: string;
  /** Nothing was written: the `dedupKey` was known, from before or from the same array. */
  readonly duplicate: boolean;
}

/**
 * An object of any class, and no list. The compiler takes every literal for a mere `object`, also `{ typ: 'order.placed' }`, but none
 * with a member of its own for this: a literal is a plain message.
 */
export type AnyEvent = object & { readonly constructor: unknown; readonly [Symbol.iterator]?: never };

/** A message without a class. Without `key` it is unordered. */
export interface PlainMessage extends MessageSettings {
  type: string;
  /** Default: `type`. */
  topic?: string;
  /**
   * `null` is a tombstone; bytes pass untouched; a string with a `contentType` is stored as it is. Bytes are not copied: leave
   * the buffer as it is until `enqueue` has resolved. All else is serialized at the call.
   */
  payload: unknown;
  /** Default 1. */
  version?: number;
  contentType?: string;
}

const SETTINGS: Readonly<Record<keyof MessageSettings, true>> = {
  id: true,
  dedupKey: true,
  transport: true,
  deliverAt: true,
  delay: true,
  key: true,
  headers: true,
  options: true,
};
export const ENQUEUE_OPTION_NAMES: readonly string[] = ['manager', 'report', ...Object.keys(SETTINGS)];
export const PLAIN_MESSAGE_NAMES: readonly string[] = [
  'type',
  'topic',
  'payload',
  'version',
  'contentType',
  ...Object.keys(SETTINGS),
];
