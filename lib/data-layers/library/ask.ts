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
const waiting = new Map<string, (place: Place | undefined) => void>();
const MARK = /\/\* (outbox \d+) \*\//;
let asked = 0;

/**
 * Finds the connection behind a handle that does not show it, by a statement with a mark: it is heard where it is sent.
 * @param ask runs the statement in the transaction
 * @returns `undefined`: outside of a transaction, or on a connection that nobody watches
 * @throws what the library says where it sends nothing: to a handle that has ended
 */
export async function askPlace(ask: (statement: string) => Promise<unknown>): Promise<Place | undefined> {
  asked += 1;
  const mark = `outbox ${asked}`;
  let found: Place | undefined;
  waiting.set(mark, (place) => {
    found = place;
  });
  try {
    await ask(`select 1 /* ${mark} */`);
  } catch (error) {
    if (found === undefined) throw error; // else it is what the server says to every statement of the transaction
  } finally {
    waiting.delete(mark);
  }
  return found;
}

/** What is sent on a connection: of each statement while somebody asks. */
export function tellPlace(watch: Heard, text: unknown): void {
  if (waiting.size === 0 || typeof text !== 'string') return;
  const mark = MARK.exec(text)?.[1];
  if (mark === undefined) return;
  // Now, and not when it is answered: a connection of a pool may be somebody else's by then.
  waiting.get(mark)?.(watch.isActive ? { watch, number: watch.state.number } : undefined);
}
