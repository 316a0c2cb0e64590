import { spawnSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const FILE = 'docs/internals/runs.md';

/** Adds a line to the page of runs: when, which commit, what ran, where, and how it ended. What a test starts adds none. */
export function noteRun(what, result) {
  if (process.env.JEST_WORKER_ID !== undefined) return;
  const machine = `${cpus().length} cores, Node ${process.versions.node}`;
  const words = [new Date().toISOString().slice(0, 16), commit(), what, machine, result];
  appendFileSync(join(root, FILE), `- ${words.join(' · ')}\n`);
}

/** What ran. This page itself does not count. */
function commit() {
  const git = (...args) => spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? '';
  const changed = git('status', '--porcelain', '--untracked-files=no', '--', '.', `:!${FILE}`);
  return `${git('rev-parse', '--short=12', 'HEAD')}${changed === '' ? '' : ' and changes'}`;
}
