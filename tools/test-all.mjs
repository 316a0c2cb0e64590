// npm run test:all [-- jest arguments]: everything there is, before an issue is called done and each night: all tests, the site,
// chaos and a long simulation. The last line is that of the tests.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const CLOSING = /^\d+ passed, \d+ failed, \d+ skipped$/m;
const CHAOS = ['--store', 'postgres', '--broker', 'rabbitmq', '--seconds', '60', '--seed', '1', '--rate', '1000'];
const SIMULATION = ['--histories', '20000', '--seed', '1', '--minutes', '10'];
/** A command hangs: none takes half as long. */
const LIMIT = 150 * 60_000;

const red = [];
await step('site', 'npm', ['run', '-s', 'docs:build']);
await step('chaos', 'npm', ['run', '-s', 'chaos', '--', ...CHAOS]);
await step('simulation', 'npm', ['run', '-s', 'simulate', '--', ...SIMULATION]);
const output = await step('tests', process.execPath, ['tools/test.mjs', '--tier', 'all', ...process.argv.slice(2)]);
const closing = CLOSING.exec(output)?.[0] ?? '0 passed, 1 failed, 0 skipped';
if (red.length > 0) console.log(`failed: ${red.join(', ')}`);
console.log(closing);
process.exitCode = red.length > 0 ? 1 : 0;

/** @returns the end of what it says */
function step(name, command, args) {
  console.log(`=== ${name}`);
  const since = Date.now();
  return new Promise((resolve) => {
    let tail = '';
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'], timeout: LIMIT });
    child.stdout.on('data', (chunk) => {
      process.stdout.write(chunk);
      tail = (tail + chunk).slice(-10_000);
    });
    child.once('error', (error) => console.error(error.message));
    child.once('close', (code) => {
      if (code !== 0) red.push(name);
      console.log(`=== ${name}: ${code === 0 ? 'ok' : 'FAILED'}, ${Math.round((Date.now() - since) / 1_000)} s`);
      resolve(tail);
    });
  });
}
