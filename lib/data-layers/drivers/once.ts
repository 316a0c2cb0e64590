import { OutboxError } from '../../outbox.errors.js';

/** Opens one session, and none in its place: what it had locked is lost with it. */
export function once<T>(open: () => Promise<T>): () => Promise<T> {
  let isOpen = false;
  return async () => {
    if (isOpen) throw new OutboxError('STORE_UNAVAILABLE', 'The session that had the lock is over.');
    isOpen = true;
    return open();
  };
}
