import { chainOf } from '../chain-of.js';

/** What was thrown while kafkajs looked for a broker or showed who it is. */
const thrown = new WeakSet<object>();

/** kafkajs' own part of a connection, reached by its description: `authenticate()` and each request go through it. */
const AUTHENTICATE = 'private:Connection:authenticate';

/**
 * kafkajs asks the application for a token and for its brokers whenever it connects, also within a send. What comes of that,
 * such as a SyntaxError over a page of HTML, looks like what is thrown over a record, and has nothing to do with one.
 */
export async function keepApart<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    for (const one of chainOf(error)) thrown.add(one);
    throw error;
  }
}

export function keepTokensApart(connection: object): void {
  const symbol = Object.getOwnPropertySymbols(connection).find(({ description }) => description === AUTHENTICATE);
  const authenticate = symbol && (connection as Record<symbol, unknown>)[symbol];
  if (symbol === undefined || typeof authenticate !== 'function') return;
  Object.assign(connection, { [symbol]: () => keepApart(() => (authenticate as () => Promise<void>)()) });
}

/** Whether it came of connecting; kafkajs wraps its errors, and keeps the innermost one only. */
export function isOfConnecting(error: unknown): boolean {
  return chainOf(error).some((one) => thrown.has(one));
}
