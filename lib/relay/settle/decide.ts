import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { INVALID } from '../../options/rules.js';
import { isPermanent, misconfigured, OutboxConfigurationError, OutboxError } from '../../outbox.errors.js';
import type { RetryPolicy } from '../../outbox.options.js';
import type { PublishFailure } from '../../transports/transport.js';
import { milliseconds } from '../../time/duration.js';
import { RETRY_RULES } from '../../options/retry-rules.js';
import { backoff } from './backoff.js';

/** Milliseconds; `refused`: what `retry.backoff` threw, or what was wrong with its answer, so that it had no say. */
interface Delay {
  readonly delay: number;
  readonly refused?: unknown;
}

/** What becomes of a message whose publish failed. Success needs no decision. */
export type Outcome =
  | ({ readonly kind: 'retry'; readonly attempts: number } & Delay)
  | { readonly kind: 'dead'; readonly attempts: number; readonly blocks: boolean }
  /** Nobody's attempt: the message stays where it is; `alone`: it is published by itself next time. */
  | { readonly kind: 'release'; readonly alone: boolean };

/**
 * Pure. Only a `message` failure counts an attempt, and only then are `maxAttempts` and `maxAge` looked at, so that an
 * outage of any length kills nothing.
 *
 * @throws what the classifier throws, and when it cannot say at once: then it has no say
 * @param now milliseconds since the epoch, by the clock that said when the message was created: the database's
 * @param random 0 ≤ x < 1
 */
export function decide(
  message: OutboxMessage,
  failure: PublishFailure,
  policy: RetryPolicy,
  now: number,
  random: number,
): Outcome {
  const said: unknown = wasNotTried(failure) ? undefined : policy.classify?.(failure.error, message, failure.blame);
  if (isThenable(said)) throw refused(said);
  const verdict = said ?? failure.blame;
  if (verdict === 'transport' || verdict === 'collateral') return { kind: 'release', alone: verdict === 'collateral' };

  const own = policyFor(message, policy);
  const { maxAttempts, maxAge, onDead } = own;
  const attempts = Math.min(message.attempts + 1, MAX_ATTEMPTS);
  const final =
    verdict === 'dead' ||
    (failure.blame === 'message' && (failure.final === true || isPermanent(failure.error))) ||
    (maxAttempts !== null && attempts >= maxAttempts) ||
    (maxAge !== null && now - message.createdAt.getTime() >= maxAge);
  if (final) return { kind: 'dead', attempts, blocks: message.key !== null && onDead === 'block' };
  return { kind: 'retry', attempts, ...delayOf(message, attempts, failure.error, own, random) };
}

function delayOf(message: OutboxMessage, attempts: number, error: unknown, policy: RetryPolicy, random: number): Delay {
  const { backoff: rule, max } = policy;
  if (typeof rule !== 'function') return { delay: backoff(attempts, { ...policy, backoff: rule }, random) };
  try {
    return { delay: Math.max(1, Math.min(max, durationSaid(rule(attempts, message, error)))) };
  } catch (refused) {
    return { delay: backoff(attempts, { ...policy, backoff: 'exponential' }, random), refused };
  }
}

/** Its text is not shown: it may be anything of the message. */
function durationSaid(said: unknown): number {
  const ms = milliseconds(typeof said === 'number' ? Math.round(said) : said);
  if (ms !== undefined) return ms;
  const isPromise = isThenable(said);
  if (isPromise) said.then(undefined, () => undefined); // its failure is nobody's
  misconfigured(
    `retry.backoff returned ${isPromise ? 'a Promise, which is not waited for' : 'no duration'}.`,
    "Return milliseconds, or text with a unit: '30s'. Until then the delay is the exponential one.",
  );
}

/** There is nothing to judge by, and a verdict of the classifier that is final for any error would end what was never tried. */
function wasNotTried({ suspect, error }: PublishFailure): boolean {
  return suspect === 'handler' && error instanceof OutboxError && error.code === 'HANDLER_BUSY';
}

/** A promise cannot be waited for here: the key of the message, and those behind it, would wait as well. */
function refused(said: PromiseLike<unknown>): OutboxConfigurationError {
  said.then(undefined, () => undefined); // its failure is nobody's
  const hint = 'Say from the error at once who is to blame, or return undefined.';
  const text = 'retry.classify returned a Promise, which is not waited for.';
  return new OutboxConfigurationError('INVALID_OPTIONS', text, { hint });
}

/** Milliseconds until a message is too old; less than 0: it is. */
export function timeLeft(message: OutboxMessage, policy: RetryPolicy, now: number): number {
  const { maxAge } = policyFor(message, policy);
  // Plain SQL can say `infinity`, which is no date here.
  return maxAge === null ? Infinity : message.createdAt.getTime() + maxAge - now || Infinity;
}

/** Of a message that waits without an attempt, for its destination or the key of its payload: dead when it is too old. */
export function agedOut(message: OutboxMessage, policy: RetryPolicy, now: number) {
  const { maxAge, onDead } = policyFor(message, policy);
  if (maxAge === null || !(now - message.createdAt.getTime() >= maxAge)) return undefined;
  return { kind: 'dead', attempts: message.attempts, blocks: message.key !== null && onDead === 'block' } as const;
}

/** The column is a 32-bit integer. */
const MAX_ATTEMPTS = 2 ** 31 - 1;

/** Milliseconds: less is the module's to say, not a row's. */
const FLOOR = { initial: 100, max: 1_000 };

const RULES = Object.entries(RETRY_RULES);

/**
 * What the event class said for its messages is stored with each, so that a worker without the class knows. A row of another
 * program may hold anything: what the module's options would refuse counts as not said, and nobody's row is tried faster
 * than the floor below, which would keep the relay and the broker busy with it.
 */
export function policyFor(message: OutboxMessage, policy: RetryPolicy): RetryPolicy {
  const overrides = message.optionsJson === null ? undefined : overridesOf(message);
  if (overrides === undefined) return policy;
  const merged: Record<string, unknown> = { ...policy };
  for (const [name, rule] of RULES) {
    const value = overrides[name] === undefined ? INVALID : rule.parse(overrides[name]);
    if (value !== INVALID) merged[name] = value;
  }
  const said = merged as unknown as RetryPolicy;
  return {
    ...said,
    initial: Math.max(said.initial, Math.min(policy.initial, FLOOR.initial)),
    max: Math.max(said.max, Math.min(policy.max, FLOOR.max)),
  };
}

function overridesOf(message: OutboxMessage): Readonly<Record<string, unknown>> | undefined {
  try {
    return (message.options['$retry'] ?? undefined) as Record<string, unknown> | undefined;
  } catch {
    return undefined; // a foreign writer's text that is no JSON, or `null`
  }
}
