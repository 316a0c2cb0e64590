/**
 * Bugs in the simulation itself: in its judge and its store those which seeds of it once found; and in its store those which only its
 * own statements can have, so that the rules about them (7 and 18) are seen to convict.
 */
export const SIMULATED = [
  {
    name: 'simulated-repark-of-a-former-life',
    breaks: 'a failure that is written again kills what an operator has requeued meanwhile',
    file: 'test/simulation/store/memory-parked.ts',
    from: `row.attempts === attemptsBefore &&
    held.some((lease) => {
      const { transport, bucket, epoch } = lease;
      return row.transport === transport && row.bucket === bucket && row.sendingEpoch === epoch;`,
    to: `attemptsBefore >= 0 &&
    held.some(({ transport, bucket }) => {
      return row.transport === transport && row.bucket === bucket;`,
  },
  {
    name: 'simulated-order-of-the-removed',
    breaks: 'the judge takes what an operator removed, and a buffer still held, for a break of order',
    file: 'test/simulation/judge.ts',
    from: 'if (fate.removed !== undefined || fate.emptied || fate.lost) continue;',
    to: 'if (fate.emptied || fate.lost) continue;',
    contract: 'test/simulation/judge.spec.ts',
  },
  {
    name: 'simulated-requeued-meanwhile',
    breaks: 'the judge takes what was requeued after others of its key were taken for one that they passed',
    file: 'test/simulation/witness.ts',
    from: " || (this.options.retry.onDead === 'skip' && other.deaths > 0);",
    to: ';',
  },
  {
    name: 'simulated-receipt-of-a-publish-before',
    breaks:
      'the judge takes the receipt of an earlier publish, which a crash lost with what was written, for one of this publish',
    file: 'test/simulation/witness.ts',
    from: '    fate.receipt = undefined; // the one before',
    to: '    // the one before',
  },
  {
    name: 'simulated-lease-before-its-time',
    breaks: 'the store gives a lease away that has not expired',
    file: 'test/simulation/store/memory-leases.ts',
    from: 'row.transport === transport && row.expiresAt <= now && ',
    to: 'row.transport === transport && ',
  },
  {
    name: 'simulated-epoch-twice',
    breaks: 'the store gives two owners in a row the same epoch',
    file: 'test/simulation/store/memory-leases.ts',
    from: 'row.epoch += 1n;',
    to: 'if (before.owner === null) row.epoch += 1n;',
  },
  {
    name: 'simulated-archived-twice',
    breaks: 'the store puts what is settled into the archive twice',
    file: 'test/simulation/store/memory-ready.ts',
    from: 'for (const row of gone) database.archive.add(',
    to: 'for (const row of [...gone, ...gone]) database.archive.add(',
  },
  {
    name: 'simulated-replica-forgets-numbers',
    breaks: 'a replica that took over gives out numbers which rows of its own hold: one row takes the place of another',
    file: 'test/simulation/store/memory-backup.ts',
    from: 'database.noteUsed();',
    to: 'database.usedSeqs.clear();',
    contract: 'test/simulation/memory-store.spec.ts',
  },
].map((mutant) => ({ ...mutant, chaos: false }));
