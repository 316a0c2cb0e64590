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
    name: 'simulated-parked-while-another-is-taken',
    breaks: 'the judge asks for the order of a row that was overtaken, and parked after the later one had been taken',
    file: 'test/simulation/witness.ts',
    from: '(!precedes(other, fate) || this.cameLate(other, fate))',
    to: '!precedes(other, fate)',
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
    name: 'simulated-receipt-that-is-written',
    breaks:
      'the judge takes a receipt that was written, and that a crash took back, for one that its process still has',
    file: 'test/simulation/witness.ts',
    from: 'if (fate !== undefined) fate.receipt = undefined;',
    to: '',
  },
  {
    name: 'simulated-one-suspect-at-a-time',
    breaks: 'the judge knows only the last message that broke its connection by itself',
    file: 'test/simulation/witness.ts',
    from: 'this.failedAlone.set(line, (this.failedAlone.get(line) ?? new Set()).add(fate));',
    to: 'this.failedAlone.set(line, new Set([fate]));',
  },
  {
    name: 'simulated-asks-during-an-outage',
    breaks: 'the judge wants a relay to know of a destination while its broker is away',
    file: 'test/simulation/asking.ts',
    from: 'if (back <= from) said',
    to: 'if (back >= 0) said',
  },
  {
    name: 'simulated-floor-of-who-was-not-told',
    breaks: 'the judge asks of a relay to know that numbers went back before any answer could tell it',
    file: 'test/simulation/heard.ts',
    from: 'return this.asOf === this.database.wentBackAt && ',
    to: 'return ',
    contract: 'test/simulation/heard.spec.ts',
  },
  {
    name: 'simulated-numbers-seen-that-passed-again',
    breaks: 'the judge asks of a relay to know that numbers went back where they reached again what it had seen',
    file: 'test/simulation/heard.ts',
    from: ' && this.unseen !== this.readAgain();',
    to: ';',
    contract: 'test/simulation/heard.spec.ts',
  },
  {
    name: 'simulated-prompt-whatever-else',
    breaks: 'the judge asks for promptness where destinations are missing and a broker is away for hours, too',
    file: 'test/simulation/judge.ts',
    from: "if (destinations === 'by key' && wrong.every((kind) => kind === 'destination missing'))",
    to: "if (destinations === 'by key')",
    simulation: false, // one of some 128,000 histories
    contract: 'test/simulation/judge.spec.ts',
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
