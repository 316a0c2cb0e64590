import type { HeaderValue, MessageHeaders, MessageOptions, OutboxMessage } from '../../outbox-message.js';
import type { Classifier } from '../../outbox.options.js';
import { eventClasses, noteEventClass, type EventClass } from './event-twins.js';

export { eventClasses, type EventClass };

/** Shared by every copy of this package in a process. */
const EVENT = Symbol.for('nestjs-outbox:event');
const CLASSIFIERS = Symbol.for('nestjs-outbox:classifiers');

/** The hint of both decorators where an event, or its type, is undefined. */
export const CIRCULAR_IMPORT =
  'Two files that import each other are the usual cause, also by way of a third (`index.ts`): one of them runs before the other has what it exports. Move the event into a file that imports neither.';

/** Headers as a caller gives them, in a plain object (no Map, no `Headers`); the same shape as a message has them. */
export type HeadersInput = Readonly<Record<string, HeaderValue>>;

/** What a message says about its own failures; milliseconds. Stored with it, so that a worker without the class knows. */
export interface StoredRetry {
  readonly initial?: number;
  readonly max?: number;
  readonly backoff?: 'exponential' | 'fixed';
  readonly jitter?: 'full' | 'equal' | 'none';
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
  /** Not stored with a message: found by type and version, see {@link classifierFor}. */
  readonly classify: Classifier | undefined;
  readonly contentType: string | undefined;
  readonly payload: ((event: T) => unknown) | undefined;
  /** Makes an event of a deserialized payload, for handlers in this process. */
  readonly revive: ((payload: unknown) => T | Promise<T>) | undefined;
}

/** Own property only: a subclass is another event and says so itself. */
export function eventMetadata<T>(eventClass: EventClass<T>): EventMetadata<T> | undefined {
  return Object.hasOwn(eventClass, EVENT)
    ? (eventClass as unknown as Record<symbol, EventMetadata<T>>)[EVENT]
    : undefined;
}

export function setEventMetadata<T>(eventClass: EventClass<T>, metadata: EventMetadata<T>): void {
  Object.defineProperty(eventClass, EVENT, { value: Object.freeze(metadata), configurable: true });
  noteEventClass(eventClass as EventClass, metadata);
  const { classify } = metadata;
  if (classify === undefined) classifiers().delete(identity(metadata));
  else classifiers().set(identity(metadata), classify);
}

/**
 * The classifier of the message's event, when its class was loaded in this process: a relay meets rows, not classes.
 * Of two classes of one type and version, as a reloaded module brings them, the later counts.
 */
export function classifierFor(message: OutboxMessage): Classifier | undefined {
  return classifiers().get(identity(message));
}

function classifiers(): Map<string, Classifier> {
  const shared = globalThis as { [CLASSIFIERS]?: Map<string, Classifier> };
  return (shared[CLASSIFIERS] ??= new Map());
}

function identity({ type, version }: { readonly type: string; readonly version: number }): string {
  return `${version} ${type}`;
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
