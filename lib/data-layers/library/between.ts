import { OutboxRollbackOnlyError } from '../../outbox.errors.js';
import type { IsolationLevel } from '../../outbox-data-layer.js';

interface Statements {
  readonly begin: string | readonly string[];
  readonly end: string;
  readonly back: string;
}

/** Of a whole transaction. */
export function ofTransaction(dialect: 'postgres' | 'mysql', isolation?: IsolationLevel): Statements {
  const ends = { end: 'commit', back: 'rollback' };
  if (isolation === undefined) return { begin: 'begin', ...ends };
  if (dialect === 'postgres') return { begin: `begin isolation level ${isolation}`, ...ends };
  return { begin: [`set transaction isolation level ${isolation}`, 'begin'], ...ends };
}

/**
 * Runs `work` between statements on one connection.
 * @param broken the connection may still be in the transaction
 */
export async function between<T>(
  send: (text: string) => Promise<unknown>,
  { begin, end, back }: Statements,
  work: () => Promise<T>,
  broken: (error: unknown) => void = () => undefined,
): Promise<T> {
  for (const text of [begin].flat()) await send(text);
  try {
    const result = await work();
    const answer = await send(end);
    // PostgreSQL answers a COMMIT with this behind a statement that failed, whoever swallowed its error.
    if (end === 'commit' && (answer as { command?: unknown } | undefined)?.command === 'ROLLBACK') throw rolledBack();
    return result;
  } catch (error) {
    await send(back).catch(broken);
    throw error;
  }
}

const rolledBack = (): OutboxRollbackOnlyError =>
  new OutboxRollbackOnlyError('The database has rolled the transaction back: a statement in it had failed.', {
    hint: 'Let the error of that statement end the transaction, or go back to a savepoint from before it.',
  });
