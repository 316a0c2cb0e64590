import { OutboxConfigurationError } from '../../outbox.errors.js';

/** Clients of transports that are not closed. */
const owned = new WeakSet<object>();

/**
 * A client has one connection and one place for it: a second transport would tear the first one's down, and what the broker
 * returns of the first one's messages would be heard by nobody.
 */
export function takeClient(client: object): void {
  if (owned.has(client)) {
    throw new OutboxConfigurationError(
      'INVALID_OPTIONS',
      'clientProxy(): this client is in use by another transport, which is not closed.',
      { hint: 'Give each transport one of its own, or close the application that has this one.' },
    );
  }
  owned.add(client);
}

export function releaseClient(client: object): void {
  owned.delete(client);
}
