// npm run test:loaded [-- arguments of npm test]: `npm test` beside four loops that take what a busy neighbour takes: two of CPU, one of
// disk, one of memory. They end with the tests, and after two hours at the latest.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const LOOPS = {
  cpu: `for (const end = Date.now() + LIMIT; Date.now() < end; ) Math.sqrt(Math.random());`,
  disk: `const fs = require('node:fs'), path = require('node:path');
    const folder = fs.mkdtempSync(path.join(require('node:os').tmpdir(), 'outbox-load-'));
    process.once('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
    process.once('SIGTERM', () => process.exit());
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

const tests = spawn(process.execPath, ['tools/test.mjs', ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
  timeout: LIMIT,
});
tests.once('close', (code) => process.exit(code ?? 1));
