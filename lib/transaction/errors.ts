import { OutboxRollbackOnlyError, OutboxTransactionRequiredError } from '../outbox.errors.js';

/** @param cause what told so; without it COMMIT or ROLLBACK is known to be on its way */
export function over(cause?: unknown): OutboxTransactionRequiredError {
  const [text, hint] = (cause === undefined ? SENT : GONE) as [string, string];
  return new OutboxTransactionRequiredError(text, { hint, cause });
}
const SENT = [
  'The transaction is being ended: COMMIT or ROLLBACK was sent.',
  'Await all parallel work of a transaction before it ends: Promise.all rejects at the first failure, while the others go on. A library may have a timeout, as Prisma has.',
];
const GONE = [
  'The transaction has ended: the database has rolled the transaction back, as it does after a deadlock, or a statement has committed it.',
  'Run the whole transaction again; what commits by itself (CREATE, TRUNCATE, LOCK TABLES) belongs before it.',
];

export function rollbackOnly(cause: unknown): OutboxRollbackOnlyError {
  if (cause instanceof OutboxRollbackOnlyError) return cause;
  const text =
    'An enqueue failed in this transaction, and may have written its message: nothing of it can be committed.';
  const hint = 'Roll back, to a savepoint from before that enqueue or as a whole, and run it again.';
  return new OutboxRollbackOnlyError(text, { hint, cause });
}

/** Whoever swallowed the error: PostgreSQL answers COMMIT with ROLLBACK, InnoDB ended the transaction or could not go back in it. */
export const rolledBack = (cause?: unknown): OutboxRollbackOnlyError =>
  new OutboxRollbackOnlyError('Nothing of the transaction can be committed: a statement in it had failed.', {
    hint: 'Let the error of that statement end the transaction, or go back to a savepoint from before it.',
    cause,
  });
