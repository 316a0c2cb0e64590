import { meantHint } from './did-you-mean.js';
import { errorCopy } from '../observe/redact/error-text.js';
import { OutboxMessageError, type OutboxErrorCode } from '../outbox.errors.js';

export function refuseUnknown(given: object, known: readonly string[], subject: string): void {
  for (const name of Object.keys(given))
    if (!known.includes(name))
      refuse(subject, `unknown field '${name.slice(0, 100)}'`, undefined, meantHint(name, known));
}

export function refuse(subject: string, what: string, code: OutboxErrorCode = 'INVALID_MESSAGE', hint?: string): never {
  throw new OutboxMessageError(code, `${subject}: ${what}.`, hint === undefined ? {} : { hint });
}

/** The one way out for what a function of the application throws over what it was given, which the caller gets as the cause. */
export function threw(code: OutboxErrorCode, text: string, error: unknown, given: unknown): OutboxMessageError {
  return new OutboxMessageError(code, text, { cause: errorCopy(error, [given]) });
}
