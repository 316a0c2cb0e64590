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
  /** Stable name of the event, stored with each message. Never the class's name, which changes with a refactoring. */
  type: string;
  /** Default: `type`. */
  topic?: string | ((event: T) => string);
  /** Messages of one key are published in order. `null`: this one is unordered. Left out: all of this class are. */
  key?: ((event: T) => string | null) | null;
  headers?: HeadersInput | ((event: T) => HeadersInput);
  /** Of the payload's shape; (type, version) belongs to one class. Default 1. */
  version?: number;
  /** Name or names; several: one message for each. Default: the module's default transport. */
  transport?: string | readonly string[];
  /** Broker-specific settings, by kind of transport. */
  options?: MessageOptions | ((event: T) => MessageOptions);
  /**
   * Overrides the module's, for messages of this class, within the bounds of its options: `initial` and `min` to 1 h, `max` to
   * 7 d, `maxAge` from 1 s; `initial` below 100 ms and `max` below 1 s count only where the module's are below. All but
   * `classify` is stored with each message, so that `backoff` cannot be a function here. `classify` counts in every process
   * that has loaded the class, and is asked first: when it says `undefined`, the module's is asked.
   */
  retry?: Omit<RetryOptions, 'backoff' | 'errorHistory'> & { backoff?: 'exponential' | 'fixed' };
  onDead?: 'block' | 'skip';
  /** Default: the serializer's, `application/octet-stream` for bytes. */
  contentType?: string;
  /** What is serialized instead of the event itself. */
  payload?: (event: T) => unknown;
  /** Makes an event, or a promise of it, of a deserialized payload for `@OnOutboxEvent` handlers; without it they get the payload as it is. */
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
