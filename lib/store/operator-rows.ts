import type { ParkedState } from '../outbox-message.js';
import { CHANGES, type Change, type MessageFilter } from './admin-store.js';

/** Of the states that a call can change, those that its filter means. */
export function statesOf(change: Change, { states }: Pick<MessageFilter, 'states'>): ParkedState[] {
  return CHANGES[change].filter((state) => states === undefined || states.includes(state));
}

/** A filter of other states never looks through what is ready, which may be millions. */
export function meansReady({ states }: Pick<MessageFilter, 'states'>): boolean {
  return states === undefined || states.includes('ready');
}

/** Rows per transaction: locks stay short whatever the filter's limit is. Renewals of leases wait for them. */
const PER_TRANSACTION = 500;

/**
 * The rows that an operator means, first ones first, by transactions. Rows that are to be deleted go from the last to the
 * first: a deletion wakes what waited behind it, and that would be sent before its own turn to be deleted.
 */
export function transactionsOf<T>(rows: readonly T[], change: 'requeue' | 'discard' | 'cancel'): T[][] {
  const transactions: T[][] = [];
  for (let from = 0; from < rows.length; from += PER_TRANSACTION)
    transactions.push(rows.slice(from, from + PER_TRANSACTION));
  return change === 'requeue' ? transactions : transactions.reverse();
}
