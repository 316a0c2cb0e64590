import { LedgerHistory } from './ledger-history.js';

export interface Histories {
  /** Of the seeds from 1 to this. */
  readonly count: number;
}
export interface Met {
  readonly met: readonly string[];
  /** Of the first history that failed. */
  readonly failed?: string;
}

/** The process of `ledger.spec.ts`. */
process.on('message', ({ count }: Histories) => process.send?.(play(count)));

function play(count: number): Met {
  const met = new Set<string>();
  for (let seed = 1; seed <= count; seed += 1) {
    try {
      new LedgerHistory(seed, met).play();
    } catch (error) {
      return { met: [...met], failed: `seed ${seed}: ${(error as Error).stack}` };
    }
  }
  return { met: [...met] };
}
