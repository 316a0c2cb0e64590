import type { HeaderValue, MessageHeaders, MessageOptions } from '../message.js';

/** Shared by every copy of this package in a process. */
const EVENT = Symbol.for('nestjs-outbox:event');

/** Headers as a caller gives them; the same shape as a message has them. */
export type HeadersInput = Readonly<Record<string, HeaderValue>>;

/** What a message says about its own failures; milliseconds. Stored with it, so that a worker without the class knows. */
export interface StoredRetry {
  readonly initial?: number;
  readonly max?: number;
  readonly maxAttempts?: number | null;
  readonly maxAge?: number;
  readonly onDead?: 'block' | 'skip';
}

/** What `@OutboxEvent` left on a class: checked, durations in milliseconds. */
export interface EventMetadata<T = object> {
  readonly type: string;
  readonly version: number;
  readonly topic: string | ((event: T) => string);
  /** `undefined`: events of this class are unordered. */
  readonly key: ((event: T) => string | null) | undefined;
  readonly headers: MessageHeaders | ((event: T) => HeadersInput) | undefined;
  /** Names; `undefined`: the default transport. */
  readonly transports: readonly string[] | undefined;
  readonly options: MessageOptions | ((event: T) => MessageOptions) | undefined;
  readonly retry: StoredRetry | undefined;
  readonly contentType: string | undefined;
  readonly payload: ((event: T) => unknown) | undefined;
  /** Makes an event of a deserialized payload, for handlers in this process. */
  readonly revive: ((payload: unknown) => T) | undefined;
}

// eslint-disable-next-line typescript/no-unsafe-function-type
export type EventClass<T = object> = Function & { readonly prototype: T };

/** Own property only: a subclass is another event and says so itself. */
export function eventMetadata<T>(eventClass: EventClass<T>): EventMetadata<T> | undefined {
  return Object.hasOwn(eventClass, EVENT)
    ? (eventClass as unknown as Record<symbol, EventMetadata<T>>)[EVENT]
    : undefined;
}

export function setEventMetadata<T>(eventClass: EventClass<T>, metadata: EventMetadata<T>): void {
  Object.defineProperty(eventClass, EVENT, { value: Object.freeze(metadata), configurable: true });
}

/** The nearest decorated class above an undecorated one. */
export function decoratedAncestor(eventClass: EventClass): EventClass | undefined {
  let parent: unknown = Object.getPrototypeOf(eventClass);
  while (typeof parent === 'function' && parent !== Function.prototype) {
    if (eventMetadata(parent as EventClass) !== undefined) return parent as EventClass;
    parent = Object.getPrototypeOf(parent);
  }
  return undefined;
}
