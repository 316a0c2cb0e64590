// npm test [-- jest arguments]: brings up what the tests need, runs Jest, takes down what it started.
// The last line is `N passed, N failed, N skipped`; the exit code says whether anything failed.
//   --tier fast | gate | all               which tests: see `tiers.mjs`. Default: gate. The fast ones need a PostgreSQL alone.
//   a part of a path                       those files, of whatever tier: npm test -- test/unit/options
//   OUTBOX_TEST_REQUIRE=all | name,name    services that must be there: without one of them the run fails
//   OUTBOX_TEST_TIMEOUT=25m                how long Jest may take, in minutes
//   OUTBOX_TEST_KEEP_TIMES=true            what each file took is written to test/support/seconds.json, and told by folder
//   OUTBOX_TEST_AGAIN=true                 for the gate: up to three files that failed run once more, each by itself
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { again } from './again.mjs';
import { noteRun } from './runs.mjs';
import { SERVICES } from './services/all.mjs';
import { provide } from './services/provide.mjs';
import { keepTimes, tellTimes } from './test-times.mjs';
import { filesOf, specsOf } from './tiers.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const { tier, args } = asked(process.argv.slice(2));
const MINUTE = 60_000;
const LIMIT = Number.parseFloat(process.env.OUTBOX_TEST_TIMEOUT ?? (tier === 'all' ? '120' : '40')) * MINUTE;
/** A file that runs once more by itself hangs: none takes half as long. */
const LIMIT_ALONE = 10 * MINUTE;
/** Jest is through, but something keeps its process alive. */
const LINGER = 60_000;

const started = [];
const scratch = mkdtempSync(join(tmpdir(), 'outbox-test-'));
const counts = { passed: 0, failed: 0, skipped: 0 };
let jest;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => jest?.kill(signal) ?? takeDown(130));

try {
  await bringUp();
  if (tier !== 'fast') build();
  await run();
} catch (error) {
  fail(error.stack ?? String(error));
}
await takeDown();

function asked(words) {
  const at = words.indexOf('--tier');
  if (at >= 0) return { tier: words[at + 1], args: words.toSpliced(at, 2) };
  return { tier: 'gate', args: words };
}

async function bringUp() {
  const services = tier === 'fast' ? SERVICES.filter(({ name }) => name === 'postgres') : SERVICES;
  for (const { variable } of SERVICES.filter((service) => !services.includes(service))) delete process.env[variable];
  const found = await Promise.allSettled(services.map((service) => provide(service)));
  for (const [index, service] of services.entries()) {
    const { status, value, reason } = found[index];
    if (status === 'fulfilled' && value.url !== undefined) {
      process.env[service.variable] = value.url;
      started.push(value);
      console.log(`${service.name}: ${value.from}`);
    } else if (status === 'rejected') {
      delete process.env[service.variable];
      fail(reason.message);
    } else {
      const why = `NO ${service.name.toUpperCase()} (${value.missing.join('; ')})`;
      if (isRequired(service)) fail(`${why}, and OUTBOX_TEST_REQUIRE asks for it`);
      else console.error(`!!! ${why}: its tests are SKIPPED. Set ${service.variable} to run them.`);
    }
  }
}

/** The package tests and the samples run what is built. */
function build() {
  const { status } = spawnSync(process.execPath, [join(root, 'tools', 'build.mjs'), '--if-stale'], {
    stdio: 'inherit',
  });
  if (status !== 0)
    fail('the build failed: tests of the package and of the samples run what was built before, if anything');
}

function isRequired(service) {
  const required = (process.env.OUTBOX_TEST_REQUIRE ?? '').split(',').map((name) => name.trim());
  return required.includes('all') || required.includes(service.name);
}

async function run() {
  const first = await runJest(namesFiles() ? args : [...args, '--runTestsByPath', ...filesOf(tier, root)]);
  if (process.env.OUTBOX_TEST_KEEP_TIMES === 'true') {
    keepTimes(root, first.files);
    tellTimes(root, first.files);
  }
  const files = process.env.OUTBOX_TEST_AGAIN === 'true' ? await withSecondRuns(first.files) : first.files;
  for (const file of files) count(file);
  if (tier === 'fast') for (const name of filesThatRanNothing(files)) fail(`nothing of ${name} ran`);
  if (first.why !== undefined) fail(first.why);
}

async function withSecondRuns(results) {
  const alone = async (name) => (await runJest(['--runTestsByPath', relative(root, name)], LIMIT_ALONE)).files[0];
  const { files, flaky } = await again(results, alone);
  for (const [why] of flaky.map(failuresOf)) {
    console.error(`FLAKY ${why}`);
    noteRun('FLAKY', why);
  }
  return files;
}

function namesFiles() {
  const specs = specsOf(root);
  return args.some((word) => !word.startsWith('-') && specs.some((name) => new RegExp(word).test(name)));
}

function count(file) {
  const of = (...statuses) => file.assertionResults.filter(({ status }) => statuses.includes(status)).length;
  const failures = failuresOf(file);
  counts.passed += of('passed');
  counts.skipped += of('pending', 'todo');
  counts.failed += failures.length;
  // Once more, together: in the output of a long run they stand far apart. `.ci/run` repeats them at its end.
  for (const line of failures) console.error(`!!! ${line}`);
}

function failuresOf({ name, status, assertionResults }) {
  const file = relative(root, name);
  const failed = assertionResults.filter((test) => test.status === 'failed');
  // A file that does not even load holds no tests, and is a failure all the same.
  if (failed.length === 0 && status === 'failed') return [`${file}: the file failed as a whole`];
  return failed.map(({ fullName, failureMessages: [first = ''] }) => {
    const [why] = stripVTControlCharacters(first).split('\n');
    return `${file}: ${fullName}: ${why}`;
  });
}

/** They need more than a PostgreSQL, and belong to another tier. */
function filesThatRanNothing(files) {
  return files
    .filter(({ assertionResults }) => assertionResults.length > 0)
    .filter(({ assertionResults }) => assertionResults.every(({ status }) => status === 'pending'))
    .map(({ name }) => relative(root, name));
}

/** @returns what Jest reports of each file, and why the run is no good beside what failed in them */
async function runJest(words, limit = LIMIT) {
  const report = join(mkdtempSync(join(scratch, 'run-')), 'report.json');
  const { code, why } = await finished(['--json', '--outputFile', report, ...words], report, limit);
  if (!existsSync(report)) return { files: [], why: why ?? `Jest ended with code ${code} and left no report` };
  const { testResults: files } = JSON.parse(readFileSync(report, 'utf8'));
  // A test that fails in its middle leaves things open, and makes the exit code: both are told with the test.
  if (files.some(({ status }) => status === 'failed')) return { files };
  return { files, why: why ?? (code === 0 ? undefined : `Jest ended with code ${code}`) };
}

function finished(words, report, limit) {
  return new Promise((resolve) => {
    let why;
    let reported;
    jest = spawn(process.execPath, [join(root, 'node_modules', 'jest', 'bin', 'jest.js'), ...words], {
      cwd: root,
      stdio: 'inherit',
    });
    const begin = Date.now();
    const give = setInterval(() => {
      if (existsSync(report)) reported ??= Date.now();
      if (reported !== undefined && Date.now() - reported > LINGER)
        why = 'Jest did not exit: a test left something open';
      else if (Date.now() - begin > limit) why = `Jest took longer than ${limit / MINUTE} minutes`;
      if (why !== undefined) jest.kill('SIGKILL');
    }, 1_000);
    jest.once('error', (error) => resolve({ code: 1, why: error.message }));
    jest.once('exit', (code) => {
      clearInterval(give);
      jest = undefined;
      resolve({ code, why });
    });
  });
}

function fail(why) {
  counts.failed += 1;
  console.error(`!!! ${why}`);
}

async function takeDown(code) {
  const stopped = await Promise.allSettled(started.map((service) => service.stop()));
  for (const { status, reason } of stopped) if (status === 'rejected') fail(reason.message);
  rmSync(scratch, { recursive: true, force: true });
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exit(code ?? (counts.failed > 0 ? 1 : 0));
}
