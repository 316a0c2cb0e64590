import { randomBytes } from 'node:crypto';
import type { TransactionWatch } from '../../transaction/transaction-watch.js';

/** Where a transaction runs, and which one of its connection it is: a handle outlives it. */
export interface Place {
  readonly watch: Heard;
  readonly number: number;
}
/** A watched connection. */
interface Heard extends TransactionWatch {
  readonly isActive: boolean;
}
/** No text of the application's begins like this by chance, nor by somebody's will. */
const QUESTION = `select 1 /* outbox ${randomBytes(12).toString('hex')} `;
/** By what stands behind {@link QUESTION}: few, as drivers and servers may keep each text. */
const waiting = new Map<string, (place: Place | 'outside') => void>();
const free: string[] = [];
let last = 0;

/**
 * Finds the connection behind a handle that does not show it, by a statement with a mark: it is heard where it is sent.
 * @param ask runs the statement in the transaction
 * @returns `outside`: of any transaction; `undefined`: on no connection that is watched
 * @throws what the library says where it sends nothing: to a handle that has ended
 */
export async function askPlace(ask: (statement: string) => Promise<unknown>): Promise<Place | 'outside' | undefined> {
  const mark = free.pop() ?? String((last += 1));
  let found: Place | 'outside' | undefined;
  waiting.set(mark, (place) => {
    found ??= place;
  });
  try {
    await ask(`${QUESTION}${mark} */`);
  } catch (error) {
    if (found === undefined) throw error; // else it is what the server says to every statement of the transaction
  } finally {
    waiting.delete(mark);
    if (found !== undefined) free.push(mark); // one that was not sent may still be
  }
  return found;
}

/** What is sent on a connection: of each statement while somebody asks. */
export function tellPlace(watch: Heard, text: unknown): void {
  if (waiting.size === 0 || typeof text !== 'string' || !text.startsWith(QUESTION)) return;
  const mark = text.slice(QUESTION.length, text.indexOf(' ', QUESTION.length));
  // Now, and not when it is answered: a connection of a pool may be somebody else's by then.
  waiting.get(mark)?.(watch.isActive ? { watch, number: watch.state.number } : 'outside');
}
