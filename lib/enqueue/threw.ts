import { errorCopy } from '../observe/redact/error-text.js';
import { OutboxMessageError, type OutboxErrorCode } from '../outbox.errors.js';

/** The one way out for what a function of the application throws over what it was given, which the caller gets as the cause. */
export function threw(code: OutboxErrorCode, text: string, error: unknown, given: unknown): OutboxMessageError {
  return new OutboxMessageError(code, text, { cause: errorCopy(error, [given]) });
}
