/**
 * What became of the messages that came to a consumer. Each is counted once: its effect is committed (`handled`); it was handled
 * before (`duplicate`), with `latest` it or a later one (`stale`); another transaction was handling it (`busy`, `IN_PROGRESS`); or nothing
 * was done (`failed`), for an error of the effect, of its transaction or of the database.
 */
export interface InboxCounts extends Readonly<Record<Counted, number>> {
  readonly consumer: string;
}
/** `retried`: a deadlock ended a try in front of the effect, and `once` made another one. */
export type Counted = 'handled' | 'duplicate' | 'stale' | 'busy' | 'failed' | 'retried';
/** By the consumer's name. */
export type Counts = Map<string, Record<Counted, number>>;

export function count(counts: Counts, consumer: string, counted: Counted): void {
  const own = counts.get(consumer) ?? { handled: 0, duplicate: 0, stale: 0, busy: 0, failed: 0, retried: 0 };
  own[counted] += 1;
  counts.set(consumer, own);
}
