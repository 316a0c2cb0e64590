import { OutboxError, OutboxMessageError, type OutboxErrorCode } from '../../outbox.errors.js';
import { CAUSE, failureTable, type FailureCause, type FailureTable } from '../failure.js';
import { BROKEN_CONNECTION } from '../network-errors.js';
import type { Verdict } from '../session/session.js';

/** There is none of this name, or none that this login may see. */
const MISSING = ['QueueDoesNotExist', 'NonExistentQueue', 'ResourceNotFoundException'];
/** SQS looked at the message, and never takes it. */
const OF_THE_MESSAGE = ['InvalidMessageContents'];
/** Not final: a queue may be made larger, or another one be made in its place. */
const OF_THE_MESSAGE_NOW = [
  'BatchRequestTooLong',
  'InvalidAttributeName',
  'InvalidAttributeValue',
  'InvalidBatchEntryId',
  'InvalidParameterCombination',
  'InvalidParameterValue',
  'MissingParameter',
  'UnsupportedOperation',
];
/** Rights, keys and rates belong to a queue; a login may have lost all of them. */
const OF_THE_QUEUE = [
  'AbortError', // of a request that was given up, while others were answered
  'InvalidAddress',
  'OverLimit',
];
/** The application's function, of which SQS knows nothing. */
export const QUEUE_URL = 'queueUrl';
/** Also with the status 400: SQS does not know who asks, or does not believe it. */
const OF_THE_LOGIN = [
  'ExpiredToken',
  'IncompleteSignature',
  'InvalidAccessKeyId',
  'InvalidClientTokenId',
  'InvalidSecurity',
  'InvalidSignatureException',
  'MissingAuthenticationToken',
  'OptInRequired',
  'RequestExpired',
  'RequestTimeTooSkewed',
  'SignatureDoesNotMatch',
  'UnrecognizedClientException',
];
const DESTINATION: FailureCause = { fault: 'transport', suspect: 'destination' };
/** SQS does not know what happened to it. */
const OF_NOBODY_KNOWS = ['InternalError', 'InternalFailure', 'InternalServerError'];
/** By SQS's word or Node's code. All else is the transport's: connections, credentials, signatures, clocks, a service that is unavailable. */
const SQS_FAILURES: FailureTable = failureTable(
  [{ fault: 'message', final: true }, OF_THE_MESSAGE],
  [CAUSE.message, [...OF_THE_MESSAGE_NOW, QUEUE_URL]],
  [DESTINATION, [...MISSING, ...OF_THE_QUEUE]],
  [CAUSE.transport, OF_THE_LOGIN],
  [CAUSE.suspicious, [...OF_NOBODY_KNOWS, ...BROKEN_CONNECTION]],
);

/** What a failed publish says; `reason` is for `retry.classify`. */
export class SqsPublishError extends OutboxError {
  /** As SQS, the SDK or Node names it: `QueueDoesNotExist`, `ECONNREFUSED`. */
  readonly reason: string;

  constructor(code: OutboxErrorCode, message: string, reason: string, cause: unknown, hint?: string) {
    super(code, message, { cause, ...(hint !== undefined && { hint }) });
    this.reason = reason;
  }
}

/** The answer to one message of a request, among others that may have been taken. */
export class EntryRefusal extends Error {
  constructor(
    readonly code: string,
    readonly senderFault: boolean,
  ) {
    super(`SQS refused the message (${code}).`);
  }
}

/** @param queue of the message that was refused; absent: there is none, and the connection failed */
export function judge(error: unknown, queue?: { readonly destination: string }): Verdict {
  if (error instanceof OutboxMessageError) return { fault: 'message', final: true };
  const reason = reasonOf(error);
  const cause = causeOf(reason, error);
  if (error instanceof SqsPublishError) return cause;
  if (cause.fault !== 'transport')
    // Without what SQS said: it may quote a message, this one or another one of the request.
    return {
      ...cause,
      error: new SqsPublishError('PUBLISH_REJECTED', `SQS refused the message (${reason}).`, reason, undefined),
    };
  if (queue === undefined || cause.suspect !== 'destination')
    return {
      ...cause,
      error: new SqsPublishError('TRANSPORT_UNAVAILABLE', `SQS is unavailable (${reason}).`, reason, error),
    };
  const { destination } = queue;
  if (MISSING.includes(reason))
    return { ...cause, destination, certain: true, error: missing(destination, reason, error) };
  const text = `SQS does not take messages for ${destination} now (${reason}).`;
  return { ...cause, destination, error: new SqsPublishError('PUBLISH_REJECTED', text, reason, error, hintOf(reason)) };
}

export function missing(destination: string, reason: string, cause: unknown): SqsPublishError {
  const hint = 'Create it, or say by queueUrl which queue takes the messages of the topic.';
  return new SqsPublishError(
    'PUBLISH_REJECTED',
    `SQS has no ${destination}, or hides it from this login.`,
    reason,
    cause,
    hint,
  );
}

export const isMissing = (error: unknown): boolean => MISSING.includes(reasonOf(error));
/** SQS knows who asks, and does not let him. */
export const isDenied = (error: unknown): boolean => /^(AccessDenied|AuthorizationError)/.test(reasonOf(error));

function hintOf(reason: string): string | undefined {
  if (/^kms/i.test(reason))
    return "The login needs kms:GenerateDataKey and kms:Decrypt for the queue's key, which must be enabled.";
  return isDenied({ code: reason })
    ? 'The login needs sqs:SendMessage, and sqs:GetQueueUrl where queueUrl does not name the queue.'
    : undefined;
}

function causeOf(reason: string, error: unknown): FailureCause {
  if (isDenied(error) || /^kms|throttl/i.test(reason) || statusOf(error) === 429) return DESTINATION;
  const row = SQS_FAILURES.get(reason) ?? SQS_FAILURES.get(reason.replace(/Exception$/, ''));
  if (row !== undefined) return row;
  if (error instanceof EntryRefusal) return error.senderFault ? CAUSE.message : CAUSE.suspicious;
  const status = statusOf(error);
  // A word that nobody knew when this was written, about what was sent.
  return status >= 400 && status < 500 && status !== 401 && status !== 403 ? CAUSE.either : CAUSE.transport;
}

/** 0: it is no answer. */
export function statusOf(error: unknown): number {
  const { $metadata } = Object(error) as { $metadata?: { httpStatusCode?: number } };
  return $metadata?.httpStatusCode ?? 0;
}

/** `AWS.SimpleQueueService.NonExistentQueue` and `com.amazonaws.sqs#NonExistentQueue` are the same. */
export function reasonOf(error: unknown): string {
  if (error instanceof SqsPublishError) return error.reason;
  const { code, name } = Object(error) as { readonly code?: unknown; readonly name?: unknown };
  const told = [code, name].find((one) => typeof one === 'string' && one !== '') as string | undefined;
  return (told ?? 'unknown').replace(/^(AWS\.SimpleQueueService\.|.*#)/, '');
}
