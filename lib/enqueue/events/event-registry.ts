import { OutboxMessageError } from '../../outbox.errors.js';
import { decoratedAncestor, eventMetadata, type EventClass, type EventMetadata } from './event-metadata.js';

/**
 * The event classes that one outbox has met. Per instance, never per process: reloaded modules (`jest.resetModules`, hot
 * reload) bring a second class of the same name, which replaces the first without complaint.
 */
export class EventRegistry {
  readonly checked = new WeakMap<EventClass, EventMetadata>();
  readonly owners = new Map<string, { readonly name: string; readonly eventClass: WeakRef<EventClass> }>();

  /** Throws `UNKNOWN_EVENT` for a class without metadata of its own, `DUPLICATE_EVENT_TYPE` for a taken (type, version). */
  metadataOf(eventClass: EventClass): EventMetadata {
    const known = this.checked.get(eventClass);
    if (known !== undefined) return known;
    const metadata = eventMetadata(eventClass);
    if (metadata === undefined) throw unknownEvent(eventClass);
    this.claim(eventClass, metadata);
    this.checked.set(eventClass, metadata);
    return metadata;
  }

  private claim(eventClass: EventClass, { type, version }: EventMetadata): void {
    const identity = `${version} ${type}`;
    const owner = this.owners.get(identity);
    const other = owner?.eventClass.deref();
    if (owner !== undefined && other !== undefined && other !== eventClass && owner.name !== eventClass.name) {
      throw new OutboxMessageError(
        'DUPLICATE_EVENT_TYPE',
        `${owner.name} and ${eventClass.name} are both event '${type}' version ${version}.`,
        { hint: 'Give one of them another type or version.' },
      );
    }
    this.owners.set(identity, { name: eventClass.name, eventClass: new WeakRef(eventClass) });
  }
}

function unknownEvent(eventClass: EventClass): OutboxMessageError {
  const name = eventClass.name || 'An anonymous class';
  const parent = decoratedAncestor(eventClass);
  return parent === undefined
    ? new OutboxMessageError('UNKNOWN_EVENT', `${name} has no @OutboxEvent.`, {
        hint: 'Decorate the class, or enqueue a plain message { type, topic, key, payload }.',
      })
    : new OutboxMessageError('UNKNOWN_EVENT', `${name} extends ${parent.name}, but has no @OutboxEvent of its own.`, {
        hint: 'Decorate it too, with a type of its own.',
      });
}
