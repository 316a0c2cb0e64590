import { OutboxError } from '../outbox.errors.js';
import type { SqlConnection } from './executor.js';

/** @throws OutboxError when the connection was reopened since: what it showed before may be gone with the server that did */
export function sameSession({ generation }: SqlConnection, session: number | undefined): void {
  if (session === undefined || session === generation) return;
  throw new OutboxError('STORE_UNAVAILABLE', 'The session that read these messages is over; they are read again.');
}
