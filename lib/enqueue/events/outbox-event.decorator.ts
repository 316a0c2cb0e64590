import { didYouMean } from '../../options/did-you-mean.js';
import type { MessageOptions } from '../../outbox-message.js';
import { INVALID } from '../../options/rules.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { RetryOptions } from '../../outbox.options.js';
import { RETRY_RULES } from '../../options/retry-rules.js';
import {
  eventMetadata,
  setEventMetadata,
  type EventClass,
  type HeadersInput,
  type StoredRetry,
} from './event-metadata.js';
import { MAX_VERSION, NO_TOPIC, textProblem } from '../../options/text-checks.js';

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
    const check = (problem: string | undefined): void => {
      if (problem !== undefined)
        throw new OutboxConfigurationError('INVALID_OPTIONS', `@OutboxEvent on ${target.name}: ${problem}.`);
    };
    check(eventMetadata(target) && 'the class has an @OutboxEvent already');
    check(optionsProblem(options));
    const { key, transport, version = 1, retry, onDead, ...rest } = options;
    setEventMetadata<T>(target, {
      type: rest.type,
      version,
      topic: rest.topic ?? rest.type,
      key: key ?? undefined,
      headers: rest.headers,
      transports: transport === undefined ? undefined : [transport].flat(),
      options: rest.options,
      retry: storedRetry(retry, onDead, check),
      classify: retry?.classify,
      contentType: rest.contentType,
      payload: rest.payload,
      revive: rest.revive,
    });
  };
}

const FUNCTION = ['function'];
const FUNCTION_OR_OBJECT = ['function', 'object'];
/** What each option may be, by `typeof`. */
const OPTIONS: Readonly<Record<keyof OutboxEventOptions<object>, readonly string[]>> = {
  type: ['string'],
  topic: ['string', 'function'],
  key: FUNCTION,
  headers: FUNCTION_OR_OBJECT,
  version: ['number'],
  transport: ['string', 'object'],
  options: FUNCTION_OR_OBJECT,
  retry: ['object'],
  onDead: ['string'],
  contentType: ['string'],
  payload: FUNCTION,
  revive: FUNCTION,
};

function optionsProblem<T>(options: OutboxEventOptions<T>): string | undefined {
  for (const [name, value] of Object.entries(options)) {
    const allowed = OPTIONS[name as keyof typeof OPTIONS] as readonly string[] | undefined;
    if (allowed === undefined) return `unknown option '${name}'${suggestion(name, Object.keys(OPTIONS))}`;
    if (name === 'topic' && value === undefined) return `topic ${NO_TOPIC}`;
    if (value === undefined || (name === 'key' && value === null)) continue;
    if (value === null || !allowed.includes(typeof value)) return `${name} must be a ${allowed.join(' or ')}`;
  }
  const { topic, contentType, version = 1, onDead } = options;
  const problem =
    textProblem('type', options.type) ??
    (typeof topic === 'string' ? textProblem('topic', topic) : undefined) ??
    (contentType === undefined ? undefined : textProblem('contentType', contentType));
  if (problem !== undefined) return problem;
  if (!Number.isInteger(version) || version < 1 || version > MAX_VERSION)
    return `version must be a whole number from 1 to ${MAX_VERSION}`;
  if (onDead !== undefined && onDead !== 'block' && onDead !== 'skip') return `onDead must be 'block' or 'skip'`;
  return undefined;
}

const { onDead: _beside, ...OF_RETRY } = RETRY_RULES;
const RETRY_OPTIONS = [...Object.keys(OF_RETRY), 'classify'];

function storedRetry(
  retry: OutboxEventOptions<object>['retry'],
  onDead: 'block' | 'skip' | undefined,
  check: (problem: string | undefined) => void,
): StoredRetry | undefined {
  const stored: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(retry ?? {})) {
    if (!RETRY_OPTIONS.includes(name)) {
      check(`unknown option 'retry.${name}'${suggestion(name, RETRY_OPTIONS)}`);
    }
    if (value === undefined) continue;
    if (name === 'classify') {
      check(typeof value === 'function' ? undefined : 'retry.classify must be a function');
      continue;
    }
    const rule = OF_RETRY[name as keyof typeof OF_RETRY];
    stored[name] = rule.parse(value);
    check(stored[name] === INVALID ? `retry.${name} must be ${rule.allowed}` : undefined);
  }
  if (onDead !== undefined) stored['onDead'] = onDead;
  return Object.keys(stored).length === 0 ? undefined : (stored as StoredRetry);
}

function suggestion(word: string, candidates: Iterable<string>): string {
  const meant = didYouMean(word, candidates);
  return meant === undefined ? '' : `; did you mean '${meant}'?`;
}
