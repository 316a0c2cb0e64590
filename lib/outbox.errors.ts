/** Every code an {@link OutboxError} can carry. Codes are stable; wording is not. */
export type OutboxErrorCode =
  // enqueue
  | 'TRANSACTION_REQUIRED'
  | 'AMBIGUOUS_TRANSACTION'
  | 'KEY_MISSING'
  | 'UNKNOWN_EVENT'
  | 'DUPLICATE_EVENT_TYPE'
  | 'INVALID_MESSAGE'
  | 'PAYLOAD_NOT_SERIALIZABLE'
  | 'PAYLOAD_INVALID'
  | 'PAYLOAD_TOO_LARGE'
  | 'ENCRYPTION_FAILED'
  | 'DUPLICATE_MESSAGE'
  | 'UNKNOWN_TRANSPORT'
  | 'TRANSACTION_CONFLICT'
  | 'ROLLBACK_ONLY'
  | 'IN_PROGRESS'
  // operators
  | 'EDIT_REFUSED'
  | 'ARCHIVE_MOVING'
  // configuration and start
  | 'INVALID_OPTIONS'
  | 'MISSING_PEER'
  | 'DATA_SOURCE_NOT_FOUND'
  | 'DUPLICATE_INSTANCE'
  | 'UNSUPPORTED_DATABASE'
  | 'SCHEMA_MISSING'
  | 'SCHEMA_MISMATCH'
  | 'TABLES_NOT_EMPTY'
  | 'DATABASE_COPIED'
  | 'HANDLER_NOT_ROUTED'
  | 'UNCONFIRMED_TRANSPORT'
  | 'NOT_STARTED'
  // relay
  | 'PUBLISH_TIMEOUT'
  | 'PUBLISH_REJECTED'
  | 'TRANSPORT_UNAVAILABLE'
  | 'DECRYPTION_FAILED'
  | 'HANDLER_MISSING'
  | 'HANDLER_FAILED'
  | 'HANDLER_BUSY'
  | 'PERMANENT'
  | 'STORE_UNAVAILABLE'
  | 'TIMEOUT';

export interface OutboxErrorDetails {
  readonly cause?: unknown;
  /** The next step, one sentence. */
  readonly hint?: string;
}

/** As an error has its own `message`: whoever prints the error does not print it once more. */
function hide(error: Error, property: string, value: unknown): void {
  Object.defineProperty(error, property, { value, enumerable: false, writable: true, configurable: true });
}

/** Base of every error of this package: what happened (`message`), why (`cause`), what to do (`hint`). */
export class OutboxError extends Error {
  readonly code: OutboxErrorCode;
  /** The end of the message, which has it already: it is not printed beside it. */
  declare readonly hint: string | undefined;

  constructor(code: OutboxErrorCode, message: string, details: OutboxErrorDetails = {}) {
    const { cause, hint } = details;
    super(hint === undefined ? message : `${message} ${hint}`, cause === undefined ? undefined : { cause });
    hide(this, 'name', new.target.name);
    this.code = code;
    hide(this, 'hint', hint);
  }
}

/** `enqueue` was not given, and did not find, an active transaction of the outbox's data layer. Nothing was written. */
export class OutboxTransactionRequiredError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('TRANSACTION_REQUIRED', message, details);
  }
}
/** Two different transactions are active and nothing says which one is meant. Nothing was written. */
export class OutboxAmbiguousTransactionError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('AMBIGUOUS_TRANSACTION', message, details);
  }
}
/** The key of an event came out `undefined` or empty; an unordered event says `null`. Nothing was written. */
export class OutboxKeyMissingError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('KEY_MISSING', message, details);
  }
}
/** A message cannot be stored or published as it is. Nothing was written. */
export class OutboxMessageError extends OutboxError {}
/** A message with this id was enqueued before. Nothing was written; the transaction stays usable. */
export class OutboxDuplicateMessageError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('DUPLICATE_MESSAGE', message, details);
  }
}
/**
 * On MySQL and MariaDB: another transaction holds a key of `ordering: 'strict'` that this one needs, has claimed its dedup key, or
 * locks the place of its messages. Retryable: roll back and run the whole transaction again.
 */
export class OutboxTransactionConflictError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('TRANSACTION_CONFLICT', message, details);
  }
}
/**
 * An enqueue failed in this transaction in a way that leaves open whether its message was written, as when an answer is lost. Until
 * a ROLLBACK, or a ROLLBACK TO a savepoint from before that enqueue, every other statement of the transaction is refused, COMMIT included.
 */
export class OutboxRollbackOnlyError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('ROLLBACK_ONLY', message, details);
  }
}
/** Options, schema or environment make a start impossible. */
export class OutboxConfigurationError extends OutboxError {}
/** @throws OutboxConfigurationError */
export function misconfigured(text: string, hint?: string, code: OutboxErrorCode = 'INVALID_OPTIONS'): never {
  throw new OutboxConfigurationError(code, text, hint === undefined ? {} : { hint });
}
/** Thrown by a handler or a transport, or given as the `cause` of what they throw: the message is dead at once, without another try. */
export class OutboxPermanentError extends OutboxError {
  constructor(message: string, details?: OutboxErrorDetails) {
    super('PERMANENT', message, details);
  }
}
/** @param depth of the causes that are looked at: they may be a circle. Of several handlers all must have said so. */
export function isPermanent(error: unknown, depth = 8): boolean {
  try {
    if (depth === 0 || !(error instanceof Error)) return false;
    if (error instanceof OutboxPermanentError) return true;
    const causes: unknown[] = error instanceof AggregateError ? error.errors : [error.cause];
    return causes.length > 0 && causes.every((cause) => isPermanent(cause, depth - 1));
  } catch {
    return false; // not every thrown value can be read
  }
}
