import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { drawPlan } from './plan.js';
import { play } from './scenario.js';
import { shrink } from './shrink.js';
import { byInvariant, type Broken } from './totals.js';
import { playAll } from './workers.js';

/**
 * Plays histories of the relay's core in virtual time, with faults, and holds each against the invariants of docs/design.md.
 *   npm run simulate -- --histories 1000 [--seed 1] [--workers 2] [--shrink 60] [--first] [--minutes M] [--trace]
 * A violation prints its seed and the commit; of the first one the history is cut down, for `--shrink` seconds at most, and
 * told. `--first` ends with the first violation, `--minutes` after so long, whatever is left. `--histories 1 --seed <it> --trace` tells a whole story. A tree that was copied
 * runs like this one, once node_modules is linked into it. `--no-scan`: nobody looks at everything, and what only that would
 * find never comes.
 */
const { values } = parseArgs({
  options: {
    histories: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(availableParallelism()) },
    shrink: { type: 'string', default: '60' },
    first: { type: 'boolean', default: false },
    minutes: { type: 'string', default: 'Infinity' },
    trace: { type: 'boolean', default: false },
    'no-scan': { type: 'boolean', default: false },
  },
});
const [histories, seed, workers] = [Number(values.histories), Number(values.seed), Number(values.workers)];
const noScan = values['no-scan'];
const begun = performance.now();
const isOver = (): boolean => performance.now() - begun > Number(values.minutes) * 60_000;
const sum = await playAll(
  seed,
  histories,
  workers,
  ({ broken }) => isOver() || (values.first && broken.length > 0),
  noScan,
);
const seconds = (performance.now() - begun) / 1_000;

if (values.trace) console.log((await play(drawPlan(seed, noScan), true)).trace.join('\n'));
for (const { seed: each, violations } of sum.broken.slice(0, 20)) {
  console.error(`seed ${each}, commit ${commit()}:\n  ${violations.slice(0, 5).join('\n  ')}`);
}
if (sum.broken[0] !== undefined && Number(values.shrink) > 0) await tell(sum.broken[0]);
const { broken, ...counts } = sum;
const perSecond = Math.round((sum.histories / seconds) * 10) / 10;
console.log(JSON.stringify({ ...counts, seed, violations: broken.length, ...byInvariant(broken), perSecond }));
process.exitCode = broken.length > 0 ? 1 : 0;

async function tell({ seed: broken }: Broken): Promise<void> {
  const { outcome, parts, tried } = await shrink(await play(drawPlan(broken, noScan)), Number(values.shrink));
  const { writers, relays, acts, faults, only, floor, options } = outcome.plan;
  const plan = { floor, options, relays, faults, acts, drawn: [...(only ?? [])], writers };
  console.error(`\nseed ${broken}, cut down in ${tried} tries from ${parts.from} parts to ${parts.to}:`);
  console.error(`${JSON.stringify(plan)}\n${outcome.trace.join('\n')}\n  ${outcome.violations.join('\n  ')}`);
}

function commit(): string {
  try {
    const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8', stdio: 'pipe' }).trim();
    return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', 'lib') === '' ? '' : ' with changes in lib'}`;
  } catch {
    return 'unknown';
  }
}
