import type { HeaderValue, MessageOptions, OutboxMessage } from '../../outbox-message.js';
import type { Classifier, RetryOptions } from '../../outbox.options.js';
import type { UpcastSteps } from '../../payloads/event-from.js';
import type { PayloadCheck } from '../../payloads/standard-schema.js';
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

export interface OutboxEventOptions<T> {
  /** Names the event in each message. Use a stable name, not the class's, which changes with a refactoring. */
  type: string;
  /** Says where the transport sends the message. Default: `type`. */
  topic?: string | ((event: T) => string);
  /** Orders messages with the same key. `null` leaves a message unordered. If omitted, all messages of the class are unordered. */
  key?: ((event: T) => string | null) | null;
  /** Sets the headers of the message. */
  headers?: HeadersInput | ((event: T) => HeadersInput);
  /** Is the version of the payload's shape. Type and version together belong to one class. Default: 1. */
  version?: number;
  /** Names the transport, or several: each gets a message. Default: the module's default transport. */
  transport?: string | readonly string[];
  /** Sets settings of one broker, by its kind: `{ kafka: { partition: 3 } }`. */
  options?: MessageOptions | ((event: T) => MessageOptions);
  /**
   * Overrides the module's `retry` for messages of this class, within the bounds of its options.
   *
   * `initial` is at most 1 h, `max` at most 7 d, `maxAge` at least 1 s. An `initial` below 100 ms or a `max` below 1 s
   * counts only where the module's is below, too. All members but `classify` are stored with each message, so that `backoff` cannot
   * be a function here. `classify` counts in every process that has loaded the class. When it returns `undefined`, the module's
   * `classify` decides.
   */
  retry?: Omit<RetryOptions, 'backoff' | 'errorHistory'> & { backoff?: 'exponential' | 'fixed' };
  /** Overrides the module's `onDead` for messages of this class. */
  onDead?: 'block' | 'skip';
  /** Says how the payload is encoded. Default: the serializer's, or `application/octet-stream` for bytes. */
  contentType?: string;
  /** Returns the value that is serialized instead of the event itself. */
  payload?: (event: T) => unknown;
  /**
   * Checks each event at enqueue: a [Standard Schema](https://standardschema.dev) of what is serialized (zod, valibot), or a function of
   * the event that throws or returns a list of issues. Both are synchronous. What a schema makes of the payload is not stored.
   */
  validate?: PayloadCheck<T>;
  /**
   * Turns payloads of older versions into the current one, by a step from each version to the next, such as `{ 1: (old) => … }`. Handlers
   * of the class then get these messages, too. A step may return a promise. What it throws is a failure of the message.
   */
  upcast?: UpcastSteps;
  /** Turns a deserialized payload into an event, or a promise of it, for `@OnOutboxEvent` handlers. */
  revive?: (payload: unknown) => T | Promise<T>;
}

type Given = 'headers' | 'options' | 'contentType' | 'payload' | 'validate' | 'upcast' | 'revive';
type AsGiven<T> = { readonly [Name in Given]: OutboxEventOptions<T>[Name] | undefined };
/** What `@OutboxEvent` left on a class: checked, durations in milliseconds. */
export interface EventMetadata<T = object> extends AsGiven<T> {
  readonly type: string;
  readonly version: number;
  readonly topic: string | ((event: T) => string);
  /** `undefined`: events of this class are unordered. */
  readonly key: ((event: T) => string | null) | undefined;
  /** Names; `undefined`: the default transport. */
  readonly transports: readonly string[] | undefined;
  readonly retry: StoredRetry | undefined;
  /** Not stored with a message: found by type and version, see {@link classifierFor}. */
  readonly classify: Classifier | undefined;
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
