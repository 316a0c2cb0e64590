import { isUnread } from '../../message/unread-payload.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { ReadyStore } from '../../store/ready-store.js';

/**
 * Brings the payloads that reads left in the database, when their messages are about to be published: memory holds those
 * of the batches on their way, whatever waits.
 * @returns whether all are there; who removed a row meanwhile settled or cancelled its message
 */
export async function readLargePayloads(
  store: Pick<ReadyStore, 'readPayloads'>,
  transport: number,
  messages: readonly OutboxMessage[],
): Promise<boolean> {
  const large = messages.filter((message) => isUnread(message) && !message.tooLarge);
  if (large.length === 0) return true;
  const payloads = await store.readPayloads(transport, large);
  let complete = true;
  for (const [index, message] of large.entries()) {
    const payload = payloads[index];
    if (payload === undefined) complete = false;
    else {
      message.body = payload;
      message.unread = 0;
    }
  }
  return complete;
}
