/**
 * Histories that once convicted something, each with what it found; they are played in every run of the tests. A change of
 * what `plan.ts` draws makes them others: find them again with the bug put back (`test/mutants`).
 */
export const SEEDS: readonly { readonly seed: number; readonly found: string }[] = [
  { seed: 293, found: 'a relay that was frozen while it connected published after its lease was over (5)' },
  { seed: 3128, found: 'a cancelled message that a buffer still held: the judge took it for a break of order' },
  { seed: 3511, found: 'a verdict of an old lease written under a new one (6)' },
  {
    seed: 731,
    found: 'of a transaction that committed between fetch and sweep, a later row left without an earlier one (3)',
  },
  { seed: 841, found: 'a row came out of a read that was sent before its settle (12)' },
  { seed: 116, found: 'a ready row overtook parked ones of its key (9)' },
  { seed: 1080246, found: 'rows that a sweep found overtook earlier ones that were given back while it was out (3)' },
  { seed: 1046746, found: 'a failure that was written again after a requeue killed the message (13)' },
  { seed: 304, found: 'a broker that took connections and no writes killed a message that went alone (13)' },
];
