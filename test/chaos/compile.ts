import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transpileFolder } from '../support/transpile.js';
import { isAlive } from './servers/is-alive.js';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/**
 * JavaScript of the library under test and of the processes, once: a relay that starts for the hundredth time must not
 * compile. Inside node_modules, so that packages are found; removed by the caller.
 * @param lib the library's sources, ours or a copy with a bug planted in it
 * @returns the folder with `lib` and what of `test` they import
 */
export function compile(lib: string): string {
  const cache = join(ROOT, 'node_modules', '.cache', 'nestjs-outbox');
  const out = join(cache, `chaos-${process.pid}`);
  mkdirSync(out, { recursive: true });
  for (const name of readdirSync(cache)) {
    // Of runs that were killed, and whatever an earlier process of this number left.
    const pid = Number(/^chaos-(\d+)$/.exec(name)?.[1] ?? NaN);
    if (pid === process.pid || !(Number.isNaN(pid) || isAlive(pid)))
      rmSync(join(cache, name), { recursive: true, force: true });
  }
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, 'package.json'), '{"type":"module"}\n');
  transpileFolder(lib, join(out, 'lib'));
  for (const folder of ['chaos', 'support/prisma'])
    transpileFolder(join(ROOT, 'test', folder), join(out, 'test', folder));
  return out;
}
