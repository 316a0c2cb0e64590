import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformSync } from '@swc/core';
import { isAlive } from './servers/is-alive.js';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/**
 * JavaScript of the library under test and of the processes, once: a relay that starts for the hundredth time must not
 * compile. Inside node_modules, so that packages are found; removed by the caller.
 * @param lib the library's sources, ours or a copy with a bug planted in it
 * @returns the folder with `lib` and `test/chaos`
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
  compileFolder(lib, join(out, 'lib'));
  compileFolder(join(ROOT, 'test', 'chaos'), join(out, 'test', 'chaos'));
  return out;
}

function compileFolder(from: string, to: string): void {
  for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.ts') || entry.name.endsWith('.spec.ts')) continue;
    const filename = join(entry.parentPath, entry.name);
    const target = join(to, relative(from, filename)).replace(/\.ts$/, '.js');
    const { code } = transformSync(readFileSync(filename, 'utf8'), {
      filename,
      sourceMaps: false,
      jsc: {
        target: 'es2022',
        parser: { syntax: 'typescript', decorators: true },
        transform: { legacyDecorator: true, decoratorMetadata: true },
        keepClassNames: true,
      },
      module: { type: 'es6' },
    });
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, code);
  }
}
