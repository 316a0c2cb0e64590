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
  try {
    for (const text of [begin].flat()) await send(text);
    const result = await work();
    await send(end);
    return result;
  } catch (error) {
    await send(back).catch(broken);
    throw error;
  }
}
