import type { Fate } from './history.js';
import type { Plan } from './plan.js';
import { play, type Outcome } from './scenario.js';

export type ToldFate = Pick<Fate, 'name' | 'key' | 'committed' | 'taken' | 'deaths'>;
/** Of an outcome, what `hours.spec.ts` asks about. A fate itself leads to the whole database. */
export interface Told extends Pick<Outcome, 'violations' | 'charged' | 'committed'> {
  readonly fates: readonly ToldFate[];
}

/** The process of `hours.spec.ts`. */
process.on('message', (plan: Plan) => void play(plan).then((outcome) => process.send?.(told(outcome))));

function told({ violations, charged, committed, fates }: Outcome): Told {
  return {
    violations,
    charged,
    committed,
    fates: fates.map(({ name, key, committed: at, taken, deaths }) => ({ name, key, committed: at, taken, deaths })),
  };
}
