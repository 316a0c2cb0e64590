// npm test [-- jest arguments]: brings up what the tests need, runs Jest, takes down what it started.
// The last line is `N passed, N failed, N skipped`; the exit code says whether anything failed.
//   OUTBOX_TEST_REQUIRE=all | name,name    services that must be there: without one of them the run fails
//   OUTBOX_TEST_TIMEOUT=25m                how long Jest may take, in minutes
//   OUTBOX_TEST_KEEP_TIMES=true            what each file took is written to test/support/seconds.json
// npm run test:fast [-- jest arguments]: the same with `--fast`, for what `fast.mjs` lists. It needs a PostgreSQL alone.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { FAST, filesThatRanNothing } from './fast.mjs';
import { kafka } from './services/kafka.mjs';
import { mariadb } from './services/mariadb.mjs';
import { mqtt } from './services/mqtt.mjs';
import { mysql } from './services/mysql.mjs';
import { nats } from './services/nats.mjs';
import { postgres } from './services/postgres.mjs';
import { provide } from './services/provide.mjs';
import { rabbitmq } from './services/rabbitmq.mjs';
import { redis } from './services/redis.mjs';
import { keepTimes } from './test-times.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const SERVICES = [postgres, mariadb, mysql, rabbitmq, kafka, redis, mqtt, nats];
const isFast = process.argv[2] === '--fast';
const MINUTE = 60_000;
/** Jest is through, but something keeps its process alive. */
const LINGER = 20_000;

const started = [];
const scratch = mkdtempSync(join(tmpdir(), 'outbox-test-'));
const counts = { passed: 0, failed: 0, skipped: 0 };
let jest;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => jest?.kill(signal) ?? takeDown(130));

try {
  await bringUp();
  if (!isFast) build();
  await runJest(isFast ? [...FAST, ...process.argv.slice(3)] : process.argv.slice(2));
} catch (error) {
  fail(error.stack ?? String(error));
}
await takeDown();

async function bringUp() {
  const services = isFast ? [postgres] : SERVICES;
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

async function runJest(args) {
  const report = join(scratch, 'report.json');
  const bin = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
  const { code, why } = await finished(['--json', '--outputFile', report, ...args], bin, report);
  if (!existsSync(report)) return fail(why ?? `Jest ended with code ${code} and left no report`);
  const results = JSON.parse(readFileSync(report, 'utf8'));
  counts.passed += results.numPassedTests;
  counts.skipped += results.numPendingTests + results.numTodoTests;
  // A file that does not even load holds no tests, and is a failure all the same.
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
  counts.failed += failed;
  if (process.env.OUTBOX_TEST_KEEP_TIMES === 'true') keepTimes(root, results.testResults);
  for (const line of failures(results)) console.error(line);
  if (isFast) for (const file of filesThatRanNothing(results.testResults)) fail(`nothing of ${file} ran`);
  if (why !== undefined) fail(why);
  else if (code !== 0 && failed === 0) fail(`Jest ended with code ${code}`);
}

/** Once more, together: in the output of a long run they stand far apart. `.ci/run` repeats them at its end. */
function failures({ testResults }) {
  return testResults.flatMap(({ name, status, assertionResults }) => {
    const file = relative(root, name);
    const failed = assertionResults.filter((test) => test.status === 'failed');
    if (failed.length === 0 && status === 'failed') return [`!!! ${file}: the file failed as a whole`];
    return failed.map(({ fullName, failureMessages: [first = ''] }) => {
      const [why] = stripVTControlCharacters(first).split('\n');
      return `!!! ${file}: ${fullName}: ${why}`;
    });
  });
}

function finished(args, bin, report) {
  const limit = Number.parseFloat(process.env.OUTBOX_TEST_TIMEOUT ?? '25') * MINUTE;
  return new Promise((resolve) => {
    let why;
    let reported;
    jest = spawn(process.execPath, [bin, ...args], { cwd: root, stdio: 'inherit' });
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
