// npm run matrix [-- --list] [name …]: runs the tests of each cell of `test/matrix/matrix.json` against the version that the
// cell names, and keeps the outcome in `test/matrix/results.json`. Without names it runs all that this machine can have.
//   npm run matrix -- postgres-18 node    this one, and all whose names begin so
//   OUTBOX_TEST_PGBOUNCER=/path npm run matrix -- pgbouncer-given    one that is not the machine's
//   npm run matrix -- --write             only writes the lists of versions in the pages again
//   npm run matrix -- node --maxWorkers=1    other options are Jest's
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { roleTables, versionLines, withVersionLines } from './matrix-pages.mjs';
import { subjectOf } from './matrix-subjects.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const RESULTS = join(root, 'test', 'matrix', 'results.json');
const PAGES = ['docs/versions.md'];
const ROLES = 'test/matrix/README.md';
/** Of one cell. */
const LIMIT = 30 * 60_000;
const CLOSING = /^(\d+) passed, (\d+) failed, (\d+) skipped$/m;

const { suites, cells } = JSON.parse(readFileSync(join(root, 'test', 'matrix', 'matrix.json'), 'utf8'));
const asked = process.argv.slice(2);
const jestOptions = asked.filter((word) => word.startsWith('--'));
if (asked.includes('--list'))
  for (const { name, product, suite } of cells) console.log(`${name}  ${product}, ${suite}`);
else if (asked.includes('--write')) writePages();
else process.exitCode = await runAll(chosen(asked.filter((word) => !word.startsWith('--'))));

function chosen(names) {
  if (names.length === 0) return cells;
  const strange = names.filter((name) => !cells.some((cell) => cell.name.startsWith(name)));
  if (strange.length > 0) throw new Error(`No cell is called ${strange.join(', ')}: npm run matrix -- --list`);
  const isWhole = (name) => cells.some((cell) => cell.name === name);
  return cells.filter((cell) =>
    names.some((name) => (isWhole(name) ? cell.name === name : cell.name.startsWith(name))),
  );
}

async function runAll(wanted) {
  const lines = [];
  let red = false;
  for (const cell of wanted) {
    const outcome = await runCell(cell).catch((error) => ({ missing: error.message.split('\n')[0] }));
    if (outcome.missing !== undefined) lines.push(`${cell.name}: NOT RUN (${outcome.missing})`);
    else {
      lines.push(
        `${cell.name} ${outcome.version}: ${outcome.passed} passed, ${outcome.failed} failed, ${outcome.skipped} skipped`,
      );
      keep(cell, outcome);
    }
    red ||= outcome.failed !== 0;
  }
  writePages();
  console.log(lines.join('\n'));
  return red ? 1 : 0;
}

async function runCell(cell) {
  const subject = await subjectOf(cell);
  try {
    console.log(`=== ${cell.name}: ${cell.product} ${subject.version}`);
    const variables = { ...subject.variables, ...cell.variables };
    const outcome = await runTests({ ...subject, variables }, suites[cell.suite], cell.of !== undefined);
    return { version: subject.version, ...outcome };
  } finally {
    await subject.stop?.();
  }
}

async function runTests({ node = process.execPath, variables = {} }, specs, byRole) {
  const scratch = mkdtempSync(join(tmpdir(), 'outbox-matrix-'));
  const OUTBOX_MATRIX_ROLES = join(scratch, 'roles.json');
  const env = { ...process.env, OUTBOX_MATRIX_ROLES, ...variables, PATH: `${dirname(node)}:${process.env.PATH}` };
  const reporters = byRole ? ['--reporters=default', `--reporters=${join(root, 'test', 'matrix', 'roles.mjs')}`] : [];
  const output = await outputOf(node, [join(root, 'tools', 'test.mjs'), ...jestOptions, ...specs, ...reporters], env);
  const roles = existsSync(OUTBOX_MATRIX_ROLES) ? { roles: JSON.parse(readFileSync(OUTBOX_MATRIX_ROLES, 'utf8')) } : {};
  rmSync(scratch, { recursive: true });
  const closing = CLOSING.exec(output);
  if (closing === null) return { passed: 0, failed: 1, skipped: 0 };
  const [passed, failed, skipped] = closing.slice(1).map(Number);
  return { passed, failed, skipped, ...roles };
}

/** Its end. */
function outputOf(command, args, env) {
  return new Promise((resolve, reject) => {
    let output = '';
    const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'], timeout: LIMIT });
    child.stdout.on('data', (chunk) => {
      process.stdout.write(chunk);
      output = (output + chunk).slice(-10_000);
    });
    child.once('error', reject);
    child.once('close', () => resolve(output));
  });
}

function keep(cell, outcome) {
  const results = readResults();
  results[cell.name] = {
    product: cell.product,
    ...outcome,
    date: new Date().toISOString().slice(0, 10),
    commit: commit(),
  };
  const sorted = cells.map(({ name }) => [name, results[name]]).filter(([, result]) => result !== undefined);
  writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(sorted), undefined, 2)}\n`);
}

/** What was tested. The files that this program writes do not count. */
function commit() {
  const git = (...args) => spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? '';
  const written = ['test/matrix/results.json', '*.md'].map((file) => `:!${file}`);
  const changed = git('status', '--porcelain', '--untracked-files=no', '--', '.', ...written);
  const hash = git('rev-parse', '--short=12', 'HEAD');
  return changed === '' ? hash : `${hash} and changes`;
}

function readResults() {
  return existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};
}

function writePages() {
  const lines = versionLines(readResults());
  writeFileSync(join(root, ROLES), roleTables(cells, readResults()));
  for (const page of PAGES) {
    const path = join(root, page);
    writeFileSync(path, withVersionLines(readFileSync(path, 'utf8'), lines));
  }
}
