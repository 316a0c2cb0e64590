import { errorCopy } from '../../observe/redact/error-text.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Failure } from '../publish/batch.types.js';
import type { Outage } from '../publish/outage.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import { decide, type Outcome } from './decide.js';

/** What becomes of a message that failed. */
export interface Failed {
  readonly outcome: Outcome;
  /** The failure, with whom it is charged to. */
  readonly charged: Failure;
}

/** The same in both relays: who is charged, what the policy says, and what an outage makes of that. */
export function outcomeOf(
  message: OutboxMessage,
  failure: Failure,
  outage: Outage,
  deps: TransportRelayDependencies<unknown>,
): Failed {
  const charged = outage.charge(message, failure);
  const decided = decideFor(message, charged, deps);
  const outcome = decided.kind === 'release' ? outage.insteadOf(decided, message, charged) : decided;
  return { outcome, charged };
}

/** A `classify` or `backoff` that throws has no say, and is told. Thrown on, it would undo a whole batch, published or not. */
function decideFor(message: OutboxMessage, failure: Failure, deps: TransportRelayDependencies<unknown>): Outcome {
  const { options, leases, random, hooks } = deps;
  const [now, chance] = [leases.now, random()];
  const tell = (error: unknown): void => {
    hooks.emit('error', { operation: 'publish', error: errorCopy(error, [message]), retryIn: null });
  };
  let outcome: Outcome;
  try {
    outcome = decide(message, failure, options.retry, now, chance);
  } catch (error) {
    tell(error);
    outcome = decide(message, failure, { ...options.retry, classify: undefined }, now, chance);
  }
  if ('refused' in outcome) tell(outcome.refused);
  return outcome;
}
