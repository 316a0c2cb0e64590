import type { OutboxMessage } from '../outbox-message.js';
import { lengthOf } from './unread-payload.js';

/** The first of these that fit into one batch by their bytes; at least one. */
export function fitting(messages: readonly OutboxMessage[], bytes: number): readonly OutboxMessage[] {
  return messages.slice(0, countFitting(messages, bytes, lengthOf));
}

/** How many, from the first, reach these bytes; at least one, and not more than `most`. */
export function countFitting<T>(
  items: readonly T[],
  bytes: number,
  bytesOf: (item: T) => number,
  most = Infinity,
): number {
  const end = Math.min(items.length, most);
  let count = 0;
  for (let sum = 0; count < end && (count === 0 || sum < bytes); count += 1) sum += bytesOf(items[count] as T);
  return count;
}
