import { placeOf } from './deliveries.js';
import type { FaultSpan } from './faults.js';
import { PLAIN, type Ledger } from './ledger.js';
import type { Violations } from './violations.js';

export type Ordering = 'key' | 'strict';
/** More than there are keys of both transports. */
const PLACES = 2 ** 17;
export interface OrderRules {
  readonly ordering: Ordering;
  /** When numbers went back: what was written after it stands before what was written before it and waits. */
  readonly setBacks: readonly FaultSpan[];
}

/**
 * A's commit returned before B's transaction began, same key and transport, neither scheduled: A is seen first. In a strict order also
 * when it returned before B's COMMIT was called, whichever of them enqueued first. And within a transaction, in the order in which
 * they were enqueued.
 * From the last first sighting to the first: whoever is seen later must not have ended before this one began, or committed.
 */
export function judgeOrder(
  ledger: Ledger,
  order: readonly number[],
  { ordering, setBacks }: OrderRules,
  broken: Violations,
): void {
  const earliestEnd = new Map<number, { ended: number; entry: number }>();
  for (let i = order.length - 1; i >= 0; i -= 1) {
    const entry = order[i] as number;
    const era = eraOf(ledger, entry, setBacks);
    if (!isOrdered(ledger, entry) || era === undefined) continue;
    const place = placeOf(ledger, entry) + era * PLACES;
    const later = earliestEnd.get(place);
    const since = ordering === 'strict' ? ledger.calledOf(entry) : ledger.beganOf(entry);
    if (later !== undefined && later.ended < since) {
      const times = ordering === 'strict' ? `: committed at ${later.ended}, and this one not before ${since}` : '';
      broken.add('orderBreaks', `${ledger.text(entry)} was seen before ${ledger.text(later.entry)}${times}`);
    }
    const ended = ledger.endedOf(entry);
    if (later === undefined || ended < later.ended) earliestEnd.set(place, { ended, entry });
  }
  for (let entry = 1; entry < ledger.entries; entry += 1)
    if (eraOf(ledger, entry, setBacks) !== undefined) withinTransaction(ledger, entry, broken);
}

/** How often numbers had gone back when this one got its own; nobody knows of a transaction that was open in that moment. */
function eraOf(ledger: Ledger, entry: number, setBacks: readonly FaultSpan[]): number | undefined {
  let era = 0;
  for (const { from, to } of setBacks) {
    if (ledger.endedOf(entry) < from) break;
    if (ledger.beganOf(entry) <= to) return undefined;
    era += 1;
  }
  return era;
}

/** Neighbours of a key as they were seen, of transactions that overlapped, of which a strict order promises just this order, and one by key none. */
export function countOrderedOverlaps(ledger: Ledger, order: readonly number[]): number {
  const last = new Map<number, number>();
  let count = 0;
  for (const entry of order) {
    if (!isOrdered(ledger, entry)) continue;
    const place = placeOf(ledger, entry);
    const ended = ledger.endedOf(last.get(place) ?? entry);
    if (ended >= ledger.beganOf(entry) && ended < ledger.calledOf(entry)) count += 1;
    last.set(place, entry);
  }
  return count;
}

/** What is taken from under a relay comes, if it was on its way, whenever the broker has it. */
function isOrdered(ledger: Ledger, entry: number): boolean {
  return ledger.kind.get(entry) === PLAIN && ledger.key.get(entry) >= 0 && ledger.taken.get(entry) === 0;
}

/** Against the nearest earlier message of its key in the same transaction. */
function withinTransaction(ledger: Ledger, entry: number, broken: Violations): void {
  if (!isOrdered(ledger, entry) || ledger.first.get(entry) < 0) return;
  const transaction = ledger.transaction.get(entry);
  const place = placeOf(ledger, entry);
  for (let other = entry - 1; other >= 0 && ledger.transaction.get(other) === transaction; other -= 1) {
    if (placeOf(ledger, other) !== place || !isOrdered(ledger, other) || ledger.first.get(other) < 0) continue;
    if (ledger.first.get(other) > ledger.first.get(entry)) {
      broken.add('orderBreaks', `${ledger.text(entry)} was seen before ${ledger.text(other)} of the same transaction`);
    }
    return;
  }
}
