import { LedgerHistory } from './ledger-history.js';

/** Random histories of eighteen steps; a failure tells its seed. */
const HISTORIES = Number(process.env.OUTBOX_LEDGER_HISTORIES ?? 1_000_000);
/** What some of them meet. */
const EVERYTHING = [
  'again',
  'alone',
  'barred',
  'behind a parked one',
  'lost',
  'orphan fails',
  'orphan is published',
  'run',
  'run breaks',
  'taken',
  'void',
];

describe('the ledger', () => {
  it('loses nothing, keeps the order of each key and nothing of what is gone, in random histories', () => {
    const met = new Set<string>();
    for (let seed = 1; seed <= HISTORIES; seed += 1) {
      try {
        new LedgerHistory(seed, met).play();
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      }
    }
    expect([...met].sort()).toEqual(EVERYTHING);
  }, 3_600_000);
});
