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
