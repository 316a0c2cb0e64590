import { Inject, Logger, Module } from '@nestjs/common';
import { MetadataScanner, ModulesContainer } from '@nestjs/core';
import { eventClasses, eventMetadata } from '../enqueue/events/event-metadata.js';
import { alsoMarked, type MarkedBy } from '../enqueue/events/on-outbox-event.decorator.js';

/** What `@OnEvent` leaves on a method. */
const LISTENS = 'EVENT_LISTENER_METADATA';
interface Listens {
  readonly event: string | symbol | readonly (string | symbol)[];
}

/**
 * Gives the messages of `inProcess()` to the `@OnEvent` methods of this application that name the type of an event with
 * `@OutboxEvent`, as to methods with `@OnOutboxEvent`. The outbox calls them itself, past the emitter, which would keep their errors
 * (`suppressErrors`): each is awaited, and tried again until it returns, by itself. What `emit` does stays as it is.
 */
@Module({})
export class OutboxEventEmitterModule {
  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    const scanner = new MetadataScanner();
    alsoMarked(modules, (prototype) =>
      scanner.getAllMethodNames(prototype).flatMap((method) => {
        const listens = Reflect.getMetadata(
          LISTENS,
          (prototype as Record<string, object>)[method] as object,
        ) as unknown;
        return ([listens ?? []].flat() as Listens[]).flatMap(({ event }) => marksFor(prototype, method, event));
      }),
    );
  }
}

function marksFor({ constructor }: object, method: string, event: Listens['event']): MarkedBy[] {
  if (typeof event === 'string' && !event.includes('*'))
    return eventClasses()
      .filter((one) => eventMetadata(one)?.type === event)
      .map((one) => ({ method, mark: { event: one, id: undefined } }));
  if (typeof event !== 'symbol')
    new Logger('Outbox').warn(
      `${constructor.name}.${method} listens to a pattern, '${event.toString()}', which hears no message of the outbox: name each type by an @OnEvent of its own`,
    );
  return [];
}
