export interface KeptSeed {
  readonly seed: number;
  readonly found: string;
  /** The mutant (`test/mutants`) that puts it back: of it this one history convicts. */
  readonly convictedBy: string;
  /** Nobody looks at everything. */
  readonly noScan?: true;
}

/**
 * Histories that convict something that once was there, each with what it found; they are played in every run of the tests. A
 * change of what `plan.ts` draws, or of how much is drawn on the way, makes them others: `npm run mutants` plants each bug and
 * says which of them are blind. Those are found again with the bug put back.
 */
export const SEEDS: readonly KeptSeed[] = [
  {
    seed: 3511,
    found: 'a verdict of an old lease written under a new one (6)',
    convictedBy: 'old-verdict-new-lease',
  },
  {
    seed: 50,
    found: 'of a transaction that committed between fetch and sweep, a later row left without an earlier one (3)',
    convictedBy: 'late-row-from-later-snapshot',
  },
  {
    seed: 10,
    found: 'a row came out of a read that was sent before its settle (12)',
    convictedBy: 'settled-row-read-again',
  },
  {
    seed: 986,
    found: 'a broker that took connections and no writes killed a message that went alone (13)',
    convictedBy: 'connection-convicts',
  },
  {
    seed: 89,
    found: 'put back: what waited for a destination was not freed when it came back (15)',
    convictedBy: 'destination-that-is-back-frees-nobody',
  },
];
