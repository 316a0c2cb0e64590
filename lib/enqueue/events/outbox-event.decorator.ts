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
import { aPayloadCheck, NO_CHECK } from '../../payloads/standard-schema.js';
import { upcastProblems } from '../../payloads/upcast.js';
import {
  CIRCULAR_IMPORT,
  eventMetadata,
  setEventMetadata,
  type EventClass,
  type OutboxEventOptions,
  type StoredRetry,
} from './event-metadata.js';

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
    // Each member, also where it is not there: what each enqueue reads is of one shape for all classes.
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
      validate: rest.validate,
      upcast: rest.upcast,
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
    validate: row(aPayloadCheck),
    upcast: row(anObject),
    revive: row(aFunction),
  },
  across: (options) => [
    ...('topic' in options && options.topic === undefined ? [`topic ${NO_TOPIC}`] : []),
    ...('validate' in options && options.validate === undefined ? [`validate ${NO_CHECK}`] : []),
    ...upcastProblems(options.upcast, options.version),
  ],
};

function storedRetry(
  { classify: _kept, ...retry }: NonNullable<OutboxEventOptions<object>['retry']> = {},
  onDead: 'block' | 'skip' | undefined,
): StoredRetry | undefined {
  const given = Object.entries({ ...retry, onDead }).filter(([, value]) => value !== undefined);
  const stored = given.map(([name, value]) => [name, RETRY_RULES[name as keyof typeof RETRY_RULES].parse(value)]);
  return stored.length === 0 ? undefined : (Object.fromEntries(stored) as StoredRetry);
}
