import { types } from 'node:util';
import { OutboxError } from '../../outbox.errors.js';
import type { PublishFailure } from '../transport.js';
import { chainOf } from '../chain-of.js';
import { failed } from '../failure.js';
import { ENCODING_ERRORS, isNetworkError } from '../network-errors.js';

/** A function of the application that failed may work after its next deployment, so its failure is not final. */
export class ApplicationFunctionError extends OutboxError {
  constructor(option: 'pattern' | 'record', cause: unknown) {
    super('PUBLISH_REJECTED', `clientProxy(): the ${option} function failed.`, { cause });
  }
}

/** No record could be made: final, unless the application's own function is what failed. */
export function blameForUnmade(error: unknown): PublishFailure {
  return failed('message', wrapped(error), { final: !(error instanceof ApplicationFunctionError) });
}

/**
 * A serializer or a client failed. What cannot be encoded is the message's fault, and not final, as the serializer may be the
 * application's. Everything else is nobody's, or that of a message that does this alone again and again.
 */
export function blameForClient(error: unknown): PublishFailure {
  const names = chainOf(error).flatMap(namesOf);
  const isMessage = names.some((name) => ENCODING_ERRORS.has(name) || name === 'InvalidMessageException');
  return isMessage && !names.some((name) => isNetworkError(name) || name === LOST)
    ? failed('message', wrapped(error))
    : failed('transport', wrapped(error), { suspect: 'message' });
}

const LOST = 'lost';

function namesOf(error: object): string[] {
  const { code, message } = error as { code?: unknown; message?: unknown };
  // A client that lost its connection reads properties of `null`, which is a TypeError as well.
  const isLost = String(message).startsWith('Cannot read properties of');
  return [String(code), String(error.constructor?.name), ...(isLost ? [LOST] : [])];
}

/** Some of Nest's clients reject with a text. */
export function wrapped(error: unknown): Error {
  if (error instanceof Error || types.isNativeError(error)) return error;
  const text = typeof error === 'string' ? error.replace(/^Error: /, '') : 'The client failed without an error.';
  return new OutboxError('TRANSPORT_UNAVAILABLE', text, { cause: error });
}
