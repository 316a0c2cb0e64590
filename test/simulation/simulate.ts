import { parseArgs } from 'node:util';
import { Scenario, type Outcome } from './scenario.js';

/**
 * Plays histories of the relay's core in virtual time, with faults, and judges each.
 *   npm run simulate -- --histories 1000 [--seed 1] [--trace]
 * A violation prints its seed; `--histories 1 --seed <it> --trace` tells the story.
 */
const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
  },
});
const histories = Number(values.histories);
const first = Number(values.seed);
const begun = performance.now();
const sum = { violations: 0, committed: 0, duplicates: 0, steps: 0 };
const faults = new Map<string, number>();

for (let seed = first; seed < first + histories; seed += 1) {
  const outcome = await new Scenario(seed, values.trace).play();
  sum.committed += outcome.committed;
  sum.duplicates += outcome.duplicates;
  sum.steps += outcome.steps;
  for (const [kind, count] of outcome.faults) faults.set(kind, (faults.get(kind) ?? 0) + count);
  if (values.trace) console.log(outcome.trace.join('\n'));
  if (outcome.violations.length > 0) tell(outcome);
}

function tell({ seed, violations }: Outcome): void {
  sum.violations += 1;
  console.error(`seed ${seed}:\n  ${violations.slice(0, 5).join('\n  ')}`);
}

const seconds = (performance.now() - begun) / 1_000;
console.log(
  JSON.stringify({
    histories,
    seed: first,
    ...sum,
    faults: Object.fromEntries(faults),
    perSecond: Math.round((histories / seconds) * 10) / 10,
  }),
);
process.exitCode = sum.violations > 0 ? 1 : 0;
