import { OutboxRollbackOnlyError, OutboxTransactionRequiredError } from '../outbox.errors.js';

/** @param cause what told so; without it COMMIT or ROLLBACK is known to be on its way */
export function over(cause?: unknown): OutboxTransactionRequiredError {
  return cause === undefined
    ? new OutboxTransactionRequiredError('The transaction is being ended: COMMIT or ROLLBACK was sent.', {
        hint: 'Await all parallel work of a transaction before it ends: Promise.all rejects at the first failure, while the others go on.',
      })
    : new OutboxTransactionRequiredError(
        'The transaction has ended: the database has rolled the transaction back, as it does after a deadlock, or a statement has committed it.',
        {
          hint: 'Run the whole transaction again; what commits by itself (CREATE, TRUNCATE, LOCK TABLES) belongs before it.',
          cause,
        },
      );
}

export function undone(): OutboxRollbackOnlyError {
  return new OutboxRollbackOnlyError('The database has undone the transaction: a statement in it failed.', {
    hint: 'Do not swallow the error of a statement, or use a savepoint.',
  });
}

export function unfinished(): OutboxRollbackOnlyError {
  return new OutboxRollbackOnlyError(
    'The effect of a message goes on in this transaction, and is written down as had: it cannot be committed now.',
    { hint: 'Await inbox.once before the end of its transaction; one that takes too long ends by ROLLBACK.' },
  );
}

export function rollbackOnly(cause: unknown): OutboxRollbackOnlyError {
  if (cause instanceof OutboxRollbackOnlyError) return cause;
  return new OutboxRollbackOnlyError(
    'An enqueue failed in this transaction, and nobody knows whether its message was written: the transaction cannot be committed.',
    { hint: 'Roll back, to a savepoint from before that enqueue or as a whole, and run it again.', cause },
  );
}
