import type { ModulesContainer } from '@nestjs/core';
import { eventMetadata, type EventClass, type EventMetadata } from '../enqueue/event-metadata.js';
import type { OutboxMessage } from '../message.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { Serializer } from '../publish/serializer.js';
import { handlerMarks, type HandlerMark } from '../publish/on-outbox-event.decorator.js';
import type { InProcessHandler } from '../publish/transports/in-process-handlers.js';

/** An `@OnOutboxEvent` method of one provider or controller. */
export interface FoundHandler {
  /** `Mailer.send`. */
  readonly name: string;
  readonly id: string;
  readonly type: string;
  readonly version: number | undefined;
  readonly eventClass: EventClass | undefined;
  readonly metadata: EventMetadata | undefined;
  call(event: unknown, message: OutboxMessage): unknown;
}
type Wrapper =
  ReturnType<ModulesContainer['get']> extends infer M
    ? M extends { providers: Map<unknown, infer W> }
      ? W
      : never
    : never;

/** Every handler of the application, once per instance. Refuses what cannot be called without a request. */
export function findHandlers(modules: ModulesContainer): FoundHandler[] {
  const seen = new Set<unknown>();
  const found: FoundHandler[] = [];
  for (const module of modules.values()) {
    for (const wrapper of [...module.providers.values(), ...module.controllers.values()] as Wrapper[]) {
      if (wrapper.isAlias || seen.has(wrapper.instance)) continue;
      const prototype = prototypeOf(wrapper);
      const marks = prototype === undefined ? [] : marksOf(prototype);
      if (marks.length === 0) continue;
      if (wrapper.isTransient || !wrapper.isDependencyTreeStatic()) throw scoped(prototype as object, marks);
      seen.add(wrapper.instance);
      for (const { method, mark } of marks)
        found.push(toHandler(wrapper.instance as object, prototype as object, method, mark));
    }
  }
  return found;
}

/** Makes events of payloads and calls the method with them. */
export function bindHandler(handler: FoundHandler, serializer: Serializer): InProcessHandler {
  return {
    id: handler.id,
    type: handler.type,
    version: handler.version,
    call: (message) => handler.call(toEvent(handler, message, serializer), message),
  };
}

function toEvent({ metadata, eventClass }: FoundHandler, message: OutboxMessage, serializer: Serializer): unknown {
  const bytes = message.payload;
  if (bytes === null) return null;
  const payload = understands(serializer, message.contentType) ? serializer.deserialize(bytes) : bytes;
  if (metadata?.revive !== undefined) return metadata.revive(payload);
  if (eventClass === undefined || !isRecord(payload)) return payload;
  // Not Object.assign: a key `__proto__` in a payload must stay a key.
  return Object.create(eventClass.prototype, Object.getOwnPropertyDescriptors(payload)) as unknown;
}

/** An event may give its JSON a name of its own, such as `application/vnd.shop.order+json`. */
function understands(serializer: Serializer, contentType: string): boolean {
  return (
    contentType === serializer.contentType || (JSON_TYPE.test(contentType) && JSON_TYPE.test(serializer.contentType))
  );
}
const JSON_TYPE = /[/+]json\s*(;|$)/i;

function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

interface MarkedMethod {
  readonly method: string;
  readonly mark: HandlerMark;
}

/** Of a scoped provider there is no instance: its class tells. */
function prototypeOf(wrapper: Wrapper): object | undefined {
  const { instance, metatype, inject } = wrapper as { instance: unknown; metatype: unknown; inject: unknown };
  const fromClass =
    typeof metatype === 'function' && (inject === undefined || inject === null)
      ? (metatype.prototype as object | undefined)
      : undefined;
  if (typeof instance !== 'object' || instance === null) return fromClass;
  return (Object.getPrototypeOf(instance) as object | null) ?? fromClass;
}

/** Methods along the prototype chain, the nearest of a name only; getters are not touched. */
function marksOf(prototype: object): MarkedMethod[] {
  const seen = new Set<string>();
  const marks: MarkedMethod[] = [];
  for (
    let level: object | null = prototype;
    level !== null && level !== Object.prototype;
    level = Object.getPrototypeOf(level) as object | null
  ) {
    for (const method of Object.getOwnPropertyNames(level)) {
      if (seen.has(method)) continue;
      seen.add(method);
      marks.push(...handlerMarks(level, method).map((mark) => ({ method, mark })));
    }
  }
  return marks;
}

function toHandler(instance: object, prototype: object, method: string, { event, id }: HandlerMark): FoundHandler {
  const name = `${prototype.constructor.name}.${method}`;
  const eventClass = typeof event === 'function' ? event : undefined;
  const metadata = eventClass === undefined ? undefined : eventMetadata(eventClass);
  if (typeof event === 'function' && metadata === undefined) {
    throw new OutboxConfigurationError('UNKNOWN_EVENT', `${name} handles ${event.name}, which has no @OutboxEvent.`, {
      hint: 'Decorate the class, or handle a plain message: @OnOutboxEvent({ type }).',
    });
  }
  const { type, version } = metadata ?? (event as { type: string; version?: number });
  return {
    name,
    id: id ?? name,
    type,
    version,
    eventClass,
    metadata,
    call: (revived, message) =>
      (instance as Record<string, (...args: unknown[]) => unknown>)[method]?.(revived, message),
  };
}

function scoped(prototype: object, marks: readonly MarkedMethod[]): OutboxConfigurationError {
  const name = `${prototype.constructor.name}.${marks[0]?.method}`;
  return new OutboxConfigurationError(
    'INVALID_OPTIONS',
    `${name} handles outbox events, but its provider is not a singleton.`,
    {
      hint: 'A handler runs without a request: make the provider (and what it injects) default-scoped, and get the rest through ModuleRef.',
    },
  );
}
