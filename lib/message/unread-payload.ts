import { OutboxMessage } from '../outbox-message.js';

/**
 * Payload bytes beyond which a read leaves a payload in the database and says how large it is (`OutboxMessage.unread`):
 * what waits in memory is bounded whatever was enqueued. 64 KiB: what is smaller costs less than a second statement.
 */
export const LARGE_PAYLOAD = 65_536;

export const isUnread = ({ unread }: OutboxMessage): boolean => unread > 0;

/**
 * What is left to write down about a message does without its payload, which would wait in memory for as long as the
 * database does not take it. The message itself stays whole: a handler may hold it. By three, as a UTF-16 unit of text
 * may be three bytes.
 */
export function withoutLargePayload(message: OutboxMessage): OutboxMessage {
  const { body } = message;
  if (body === null || body.length * 3 <= LARGE_PAYLOAD) return message;
  return new OutboxMessage({ ...message, body: null, unread: body.length });
}

/** What a write needs of a message that may wait for it for days: where it is, and how large. */
export function placeOnly(message: OutboxMessage): OutboxMessage {
  return new OutboxMessage({
    ...message,
    body: null,
    unread: lengthOf(message),
    headersJson: null,
    optionsJson: null,
    progress: null,
  });
}

/** What it takes in memory, and will when its payload is read. */
export function weightOf(message: OutboxMessage): number {
  return lengthOf(message) + (message.headersJson?.length ?? 0) + (message.optionsJson?.length ?? 0);
}

/** UTF-16 units for text, bytes for bytes: close enough for a bound, and free. */
export function lengthOf({ body, unread }: OutboxMessage): number {
  return body === null ? unread : body.length;
}
