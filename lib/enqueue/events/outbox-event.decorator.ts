import { refuseOptions, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import { RETRY_RULES } from '../../options/retry-rules.js';
import {
  aFunction,
  aName,
  anObject,
  INVALID,
  integer,
  needed,
  objectOf,
  orFunction,
  orNullFor,
  type Rule,
} from '../../options/rules.js';
import { MAX_VERSION, NO_TOPIC } from '../../options/text-checks.js';
import type { MessageOptions } from '../../outbox-message.js';
import type { RetryOptions } from '../../outbox.options.js';
import {
  CIRCULAR_IMPORT,
  eventMetadata,
  setEventMetadata,
  type EventClass,
  type HeadersInput,
  type StoredRetry,
} from './event-metadata.js';

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
  /** Turns a deserialized payload into an event, or a promise of it, for `@OnOutboxEvent` handlers. */
  revive?: (payload: unknown) => T | Promise<T>;
}

/**
 * Makes a class an event that `OutboxService.enqueue` takes. The functions' parameter is inferred from the class:
 *
 *     @OutboxEvent({ type: 'order.placed', topic: 'orders', key: (e) => e.orderId })
 *     export class OrderPlaced { constructor(readonly orderId: string) {} }
 */
export function OutboxEvent<T extends object>(
  options: OutboxEventOptions<T>,
): (target: EventClass<T>, context?: unknown) => void {
  return (target) => {
    const place = `@OutboxEvent on ${target.name}`;
    if (eventMetadata(target) !== undefined) refuseOptions(place, ['the class has an @OutboxEvent already']);
    resolveFactory({ ...TABLE, factory: place }, options as unknown as OutboxEventOptions<object>);
    const { key, transport, version = 1, retry, onDead, ...rest } = options;
    setEventMetadata<T>(target, {
      type: rest.type,
      version,
      topic: rest.topic ?? rest.type,
      key: key ?? undefined,
      headers: rest.headers,
      transports: transport === undefined ? undefined : [transport].flat(),
      options: rest.options,
      retry: storedRetry(retry, onDead),
      classify: retry?.classify,
      contentType: rest.contentType,
      payload: rest.payload,
      revive: rest.revive,
    });
  };
}

const { onDead, ...OF_RETRY } = RETRY_RULES;
const someNames: Rule = {
  allowed: 'a name, or an array of names',
  parse: (value) => ([value].flat().every((name) => typeof name === 'string') ? value : INVALID),
};

const TABLE: Omit<FactoryTable<OutboxEventOptions<object>>, 'factory'> = {
  needed: 'type',
  hint: CIRCULAR_IMPORT,
  rows: {
    type: row(needed(aName)),
    topic: row(orFunction(aName)),
    key: row(orNullFor(aFunction, undefined)),
    headers: row(orFunction(anObject)),
    version: row(integer(1, MAX_VERSION)),
    transport: row(someNames),
    options: row(orFunction(anObject)),
    retry: row(objectOf({ ...OF_RETRY, classify: aFunction })),
    onDead: row(onDead),
    contentType: row(aName),
    payload: row(aFunction),
    revive: row(aFunction),
  },
  across: (options) => ('topic' in options && options.topic === undefined ? [`topic ${NO_TOPIC}`] : []),
};

function storedRetry(
  { classify: _kept, ...retry }: NonNullable<OutboxEventOptions<object>['retry']> = {},
  onDead: 'block' | 'skip' | undefined,
): StoredRetry | undefined {
  const given = Object.entries({ ...retry, onDead }).filter(([, value]) => value !== undefined);
  const stored = given.map(([name, value]) => [name, RETRY_RULES[name as keyof typeof RETRY_RULES].parse(value)]);
  return stored.length === 0 ? undefined : (Object.fromEntries(stored) as StoredRetry);
}
