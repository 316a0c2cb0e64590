import { placeOf } from './deliveries.js';
import { PLAIN, type Ledger } from './ledger.js';
import type { Violations } from './violations.js';

/**
 * A's commit returned before B's transaction began, same key and transport, neither scheduled: A is seen first. And within
 * a transaction, in the order in which they were enqueued.
 * From the last first sighting to the first: whoever is seen later must not have ended before this one began.
 */
export function judgeOrder(ledger: Ledger, order: readonly number[], broken: Violations): void {
  const earliestEnd = new Map<number, { ended: number; entry: number }>();
  for (let i = order.length - 1; i >= 0; i -= 1) {
    const entry = order[i] as number;
    if (ledger.kind.get(entry) !== PLAIN || ledger.key.get(entry) < 0) continue;
    const place = placeOf(ledger, entry);
    const later = earliestEnd.get(place);
    if (later !== undefined && later.ended < ledger.beganOf(entry)) {
      broken.add('orderBreaks', `${ledger.text(entry)} was seen before ${ledger.text(later.entry)}`);
    }
    const ended = ledger.endedOf(entry);
    if (later === undefined || ended < later.ended) earliestEnd.set(place, { ended, entry });
  }
  for (let entry = 1; entry < ledger.entries; entry += 1) withinTransaction(ledger, entry, broken);
}

/** Against the nearest earlier message of its key in the same transaction. */
function withinTransaction(ledger: Ledger, entry: number, broken: Violations): void {
  if (ledger.kind.get(entry) !== PLAIN || ledger.key.get(entry) < 0 || ledger.first.get(entry) < 0) return;
  const transaction = ledger.transaction.get(entry);
  const place = placeOf(ledger, entry);
  for (let other = entry - 1; other >= 0 && ledger.transaction.get(other) === transaction; other -= 1) {
    if (placeOf(ledger, other) !== place || ledger.kind.get(other) !== PLAIN || ledger.first.get(other) < 0) continue;
    if (ledger.first.get(other) > ledger.first.get(entry)) {
      broken.add('orderBreaks', `${ledger.text(entry)} was seen before ${ledger.text(other)} of the same transaction`);
    }
    return;
  }
}
