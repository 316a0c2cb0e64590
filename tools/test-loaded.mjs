// npm run test:loaded [-- arguments of npm test]: `npm test` beside four loops that take what a busy neighbour takes: two of CPU, one of
// disk, one of memory. They end with the tests, and after two hours at the latest. It adds a line to docs/internals/runs.md.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { noteRun } from './runs.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const LOOPS = {
  cpu: `for (const end = Date.now() + LIMIT; Date.now() < end; ) Math.sqrt(Math.random());`,
  disk: `const fs = require('node:fs'), path = require('node:path');
    const folder = fs.mkdtempSync(path.join(require('node:os').tmpdir(), 'outbox-load-'));
    process.on('SIGTERM', () => { fs.rmSync(folder, { recursive: true, force: true }); process.exit(); });
    const file = fs.openSync(path.join(folder, 'data'), 'w'), block = Buffer.alloc(4 << 20, 1), end = Date.now() + LIMIT;
    (function write(at) {
      fs.writeSync(file, block, 0, block.length, (at % 64) * block.length);
      fs.fsyncSync(file);
      if (Date.now() < end) setImmediate(write, at + 1);
    })(0);`,
  memory: `const held = [], end = Date.now() + LIMIT;
    (function take() {
      held.push(Buffer.alloc(64 << 20, 1));
      if (held.length > 32) held.splice(0, 16);
      if (Date.now() < end) setTimeout(take, 50);
    })();`,
};
const LIMIT = 120 * 60_000;

const loops = ['cpu', 'cpu', 'disk', 'memory'].map((name) =>
  spawn(process.execPath, ['-e', `const LIMIT = ${LIMIT}; ${LOOPS[name]}`], { stdio: ['ignore', 'ignore', 'inherit'] }),
);
const end = () => loops.forEach((loop) => loop.kill());
process.once('exit', end);
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => tests.kill(signal));

const begun = Date.now();
const tests = spawn(process.execPath, ['tools/test.mjs', ...process.argv.slice(2)], {
  cwd: root,
  stdio: ['inherit', 'pipe', 'inherit'],
  timeout: LIMIT,
});
let tail = '';
tests.stdout.on('data', (chunk) => {
  process.stdout.write(chunk);
  tail = (tail + chunk).slice(-10_000);
});
tests.once('close', (code) => {
  const closing = /^\d+ passed, \d+ failed, \d+ skipped$/m.exec(tail)?.[0] ?? 'no closing line';
  noteRun(
    `test:loaded ${process.argv.slice(2).join(' ')}`.trim(),
    `${closing}; ${Math.round((Date.now() - begun) / 1_000)} s`,
  );
  process.exit(code ?? 1);
});
