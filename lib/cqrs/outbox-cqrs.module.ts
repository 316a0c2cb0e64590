import { Inject, Logger, Module } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { eventMetadata, type EventClass } from '../enqueue/events/event-metadata.js';
import { alsoMarked, type MarkedBy } from '../enqueue/events/on-outbox-event.decorator.js';

/** What the decorators of @nestjs/cqrs leave on a class. */
const [EVENTS, SAGAS] = ['__eventsHandler__', '__saga__'];

/**
 * Gives the messages of `inProcess()` to the `@EventsHandler` classes of this application, as to methods with `@OnOutboxEvent`: each
 * is awaited, and tried again until it returns, by itself. It takes classes of events with `@OutboxEvent`; all others stay with the
 * `EventBus`. The id of a handler is `Class.handle`; `@OnOutboxEvent(Event, { id })` on `handle` gives another.
 */
@Module({})
export class OutboxCqrsModule {
  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    alsoMarked(modules, handlersOf);
  }
}

function handlersOf({ constructor }: object): MarkedBy[] {
  const sagas = (Reflect.getMetadata(SAGAS, constructor) ?? []) as readonly string[];
  for (const saga of sagas)
    new Logger('Outbox').warn(
      `the saga ${constructor.name}.${saga} hears no event of the outbox, as nobody could await what it does: execute its command in an @EventsHandler`,
    );
  const events = new Set((Reflect.getMetadata(EVENTS, constructor) ?? []) as readonly EventClass[]);
  return [...events]
    .filter((event) => eventMetadata(event) !== undefined)
    .map((event) => ({ method: 'handle', mark: { event, id: undefined } }));
}
