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

/** Worker-seconds by folder, the longest first: of all, and of them outside the tests (loading, set-up, what ends it). */
export function tellTimes(root, testResults) {
  const folders = new Map();
  for (const { name, startTime, endTime, assertionResults } of testResults) {
    const folder = relative(root, name).split(/[\\/]/).slice(0, -1).slice(0, 3).join('/');
    const row = folders.get(folder) ?? { folder, files: 0, seconds: 0, outside: 0 };
    const inside = assertionResults.reduce((sum, { duration }) => sum + (duration ?? 0), 0);
    row.files += 1;
    row.seconds += (endTime - startTime) / 1_000;
    row.outside += Math.max(0, endTime - startTime - inside) / 1_000;
    folders.set(folder, row);
  }
  const rows = [...folders.values()].toSorted((a, b) => b.seconds - a.seconds);
  const sum = (of) => rows.reduce((total, row) => total + row[of], 0);
  const total = { folder: 'all', files: sum('files'), seconds: sum('seconds'), outside: sum('outside') };
  for (const { folder, files, seconds, outside } of [total, ...rows])
    console.log(`${folder}: ${files} files, ${Math.round(seconds)} s, of it ${Math.round(outside)} s outside tests`);
}
