import { eventMetadata, type EventClass } from '../enqueue/events/event-metadata.js';
import { OutboxMessageError } from '../outbox.errors.js';
import { eventFrom } from '../payloads/event-from.js';
import type { ReceivedMessage } from './received-message.js';

/**
 * The event of a received message, as a handler in the process gets it: by `upcast` and `revive` of its class. `null` for a tombstone.
 *
 * @throws {@link OutboxMessageError} `INVALID_MESSAGE` for another type, and for a version that the class does not take, such as a newer one
 */
export async function upcast<T extends object>(
  eventClass: EventClass<T>,
  { type, version, payload }: Pick<ReceivedMessage, 'type' | 'version' | 'payload'>,
): Promise<T | null> {
  const metadata = eventMetadata(eventClass);
  if (metadata === undefined) throw new OutboxMessageError('UNKNOWN_EVENT', `${eventClass.name} has no @OutboxEvent.`);
  const isTaken = version === metadata.version || Object.hasOwn(metadata.upcast ?? {}, version);
  if (type !== metadata.type || !isTaken)
    throw new OutboxMessageError('INVALID_MESSAGE', `${eventClass.name} does not take '${type}' version ${version}.`);
  return payload === null ? null : ((await eventFrom(payload, version, { eventClass, metadata })) as T);
}
