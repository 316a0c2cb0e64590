// What each file of tests took, for the order in which a run without a memory of its own begins them.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/** Seconds. Of files below, the order does not matter. */
const WORTH_IT = 3;

/** Of what ran now; what did not keeps its time, and what is gone is forgotten. */
export function keepTimes(root, testResults) {
  const file = join(root, 'test', 'support', 'seconds.json');
  const before = JSON.parse(readFileSync(file, 'utf8'));
  const now = timesOf(root, testResults);
  const kept = Object.entries({ ...before, ...now }).filter(
    ([name, seconds]) => seconds >= WORTH_IT && existsSync(join(root, name)),
  );
  kept.sort(([a, one], [b, other]) => other - one || a.localeCompare(b));
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`);
}

function timesOf(root, testResults) {
  return Object.fromEntries(
    testResults
      .filter(({ status }) => status === 'passed')
      .map(({ name, startTime, endTime }) => [
        relative(root, name).replaceAll('\\', '/'),
        Math.round((endTime - startTime) / 1_000),
      ]),
  );
}
