/** Bugs in the simulation itself, which seeds of it once found: in its judge, and in its store, where that has what servers have. */
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
    from: 'if (fate.removed !== undefined) continue;',
    to: '',
  },
  {
    name: 'simulated-requeued-meanwhile',
    breaks: 'the judge takes what was requeued after others of its key were taken for one that they passed',
    file: 'test/simulation/witness.ts',
    from: " || (this.options.retry.onDead === 'skip' && other.deaths > 0);",
    to: ';',
  },
  {
    name: 'simulated-put-off-is-stuck',
    breaks: 'the judge takes what was put off for its destination, for up to a minute, for stuck',
    file: 'test/simulation/scenario.ts',
    from: 'Math.max(history.longestProbe, this.longestWait())',
    to: 'history.longestProbe',
  },
].map((mutant) => ({ ...mutant, chaos: false }));
