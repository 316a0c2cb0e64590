import { duration, integer, oneOf, orNull } from './rules.js';

/** What of the retry policy an event class, or a row, may say otherwise than the module; the bounds are those of its options. */
export const RETRY_RULES = {
  initial: duration('1ms', '1h'),
  max: duration('1ms', '7d'),
  backoff: oneOf('exponential', 'fixed'),
  jitter: oneOf('full', 'equal', 'none'),
  maxAttempts: orNull(integer(1, 1_000_000)),
  maxAge: duration('1s', '3650d'),
  onDead: oneOf('block', 'skip'),
} as const;
