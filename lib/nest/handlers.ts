import type { ModulesContainer } from '@nestjs/core';
import type { OutboxMessage } from '../outbox-message.js';
import { errorText } from '../observe/redact/error-text.js';
import { deserializerFor, type PayloadDeserializer } from '../message/serializer.js';
import { andThen, eventFrom } from '../payloads/event-from.js';
import { olderVersions } from '../payloads/upcast.js';
import type { InProcessHandler } from '../transports/in-process/handlers.js';
import { refuseExchangeable, refuseTwinEvent, type FoundHandler } from './handler-checks.js';
import { HandlerSearch } from './handler-search.js';
import { instancesOf } from './instances.js';
import { checkRouting } from './routing.js';
import type { OutboxRuntime } from './assemble.js';

type Wanted = Pick<OutboxRuntime, 'handlers' | 'options' | 'instance' | 'events'>;

/**
 * Gives the transport every handler of the application, now and whenever a module was loaded since.
 * @throws for one that cannot be called. Of those that come later a warning tells: nobody waits for them.
 */
export function addHandlers(modules: ModulesContainer, { handlers, options, instance, events }: Wanted): void {
  const search = new HandlerSearch(modules);
  const outboxes = instancesOf(instance.application).map((one) => one.options);
  const readers = [options.serializer, ...options.deserializers];
  const first = new Map<string, FoundHandler>();
  const ofType = new Map<string, FoundHandler[]>();
  const add = (refused: (error: unknown) => void): void => {
    for (const handler of search.look(refused)) {
      try {
        refuseTwinEvent(handler, first);
        checkRouting([handler], outboxes);
        for (const version of [...olderVersions(handler.metadata?.upcast), handler.version]) {
          refuseExchangeable({ ...handler, version }, ofType);
          handlers.add(bindHandler({ ...handler, version }, readers));
        }
      } catch (error) {
        refused(error);
      }
    }
  };
  add((error) => {
    throw error;
  });
  handlers.addFrom(() => {
    if (!search.isStale) return;
    add((error) =>
      events.emit('warning', { text: `a handler that was loaded later is not called: ${errorText(error)}` }),
    );
  });
}

/** Makes events of payloads and calls the method with them; at once, where nothing of that takes time. */
export function bindHandler(handler: FoundHandler, readers: readonly PayloadDeserializer[]): InProcessHandler {
  const call: InProcessHandler['call'] = (message, context) =>
    andThen(toEvent(handler, message, readers), (event) => handler.call(event, message, context));
  return { ...handler, call };
}

function toEvent(handler: FoundHandler, message: OutboxMessage, readers: readonly PayloadDeserializer[]): unknown {
  const bytes = message.payload;
  if (bytes === null) return null;
  const reader = deserializerFor(readers, message.contentType);
  return andThen(reader === undefined ? bytes : reader.deserialize(bytes, message), (payload) =>
    eventFrom(payload, message.version, handler),
  );
}
