/** Who wants to know how a transaction ended. Called synchronously; what it throws is dropped. */
export interface TransactionListener {
  committed(ids: readonly string[]): void;
  /** Of a whole transaction, or of a savepoint inside it. */
  rolledBack(ids: readonly string[]): void;
  /** The transaction may have been committed, by a statement of which nobody knows. How it ended is told all the same, later. */
  perhaps?(): void;
  /** While what was written for it says more than is done yet: what whoever commits hears. */
  readonly unfinished?: (() => Error) | undefined;
}

/** Messages that were written. */
export interface Entry {
  readonly listener: TransactionListener;
  readonly ids: readonly string[];
}

/** Each listener once. */
export function tellPerhaps(entries: readonly Entry[]): void {
  for (const listener of new Set(entries.map((entry) => entry.listener))) listener.perhaps?.();
}

/** Each listener once, with all its ids, in the order of writing. */
export function tell(entries: readonly Entry[], committed: boolean): void {
  const byListener = new Map<TransactionListener, string[]>();
  for (const { listener, ids } of entries) {
    const all = byListener.get(listener);
    if (all === undefined) byListener.set(listener, [...ids]);
    else for (const id of ids) all.push(id);
  }
  for (const [listener, ids] of byListener) {
    try {
      if (committed) listener.committed(ids);
      else listener.rolledBack(ids);
    } catch {
      // A hint must never break a transaction that has ended; the relay polls anyway.
    }
  }
}
