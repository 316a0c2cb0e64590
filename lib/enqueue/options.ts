import type { Duration, MessageOptions } from '../outbox-message.js';
import type { TransactionHandle } from '../outbox-data-layer.js';
import type { HeadersInput } from './events/event-metadata.js';

/** Settings of one message, which replace those of its class. */
export interface MessageSettings {
  /** Sets the message's id, a UUIDv7 of RFC 9562. The same id a second time is an `OutboxDuplicateMessageError`. Default: a new one. */
  id?: string;
  /** Makes a second `enqueue` with the same key write nothing and return the first message's id. Cannot be used with `id`. */
  dedupKey?: string;
  /** Names the transport, or several: each gets a message, all with one id. */
  transport?: string | readonly string[];
  /** Publishes the message at this time or later. Cannot be used with `delay`. */
  deliverAt?: Date;
  /**
   * Publishes the message this long after the enqueue or later, by the database's clock. A fraction of a millisecond is rounded up.
   * Cannot be used with `deliverAt`.
   */
  delay?: Duration;
  /** Orders the message among those with the same key; `null` leaves it unordered. `undefined` and `''` are refused: the order would be lost unnoticed. */
  key?: string | null;
  /** Adds headers to those of the class. */
  headers?: HeadersInput;
  /** Adds settings of one broker, by its kind: `{ kafka: { partition: 3 } }`. */
  options?: MessageOptions;
}

export interface EnqueueOptions extends MessageSettings {
  /** Sets the transaction to write in. Default: the one of `outbox.transaction`, `outbox.bind` or `currentTransaction`. */
  tx?: TransactionHandle;
  /** Is TypeORM's word for `tx`. */
  manager?: TransactionHandle;
}

/** `enqueue(message, { report: true })` returns a report instead of the id. */
export interface ReportOption {
  report: true;
}
export interface EnqueueReport {
  /** The id of the message; for a duplicate, the id of the earlier message with the same `dedupKey`. */
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
  /** Names the event. It is stored with the message, and consumers see it. */
  type: string;
  /** Says where the transport sends it. Default: `type`. */
  topic?: string;
  /**
   * Is the content. `null` is a tombstone, bytes pass untouched, and a string with a `contentType` is stored as it is. All else is
   * serialized at the call. Bytes are not copied: leave the buffer as it is until `enqueue` has resolved.
   */
  payload: unknown;
  /** Is the version of the payload's shape. Default: 1. */
  version?: number;
  /** Says how the payload is encoded. Default: the serializer's, or `application/octet-stream` for bytes. */
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
export const ENQUEUE_OPTION_NAMES: readonly string[] = ['tx', 'manager', 'report', ...Object.keys(SETTINGS)];
export const PLAIN_MESSAGE_NAMES: readonly string[] = [
  'type',
  'topic',
  'payload',
  'version',
  'contentType',
  ...Object.keys(SETTINGS),
];
