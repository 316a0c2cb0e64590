import { fork, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, readSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { sourcesIn, transpile } from './transpile.js';

/** Whatever a process of a test may import. */
export const SOURCES = ['lib', 'bench/support', 'test/processes', 'test/security', 'test/support'];

/**
 * Starts a file of the tests in a process of its own. It runs as JavaScript that was compiled before: a loader of TypeScript
 * costs each process as much time again as the packages that it loads.
 * @param file from the root of the repository
 */
export function startFile(
  file: string,
  variables: Readonly<Record<string, string>>,
  { options = [], pipes = false }: { readonly options?: readonly string[]; readonly pipes?: boolean } = {},
): ChildProcess {
  const root = process.cwd();
  const output = pipes ? 'pipe' : 'inherit';
  return fork(join(compiledSources(root), file.replace(/\.ts$/, '.js')), [], {
    cwd: root,
    execArgv: [...options],
    env: { ...process.env, ...variables },
    stdio: ['ignore', output, output, 'ipc'],
  });
}

/** The folder with `lib` and `test` as JavaScript, as the sources are now. */
export function compiledSources(root: string): string {
  const out = join(root, '.cache', 'processes');
  mkdirSync(out, { recursive: true });
  replace(join(out, 'package.json'), '{"type":"module"}\n');
  for (const folder of SOURCES)
    for (const filename of sourcesIn(join(root, folder)))
      compileOne(filename, join(out, relative(root, filename)).replace(/\.ts$/, '.js'));
  return out;
}

function compileOne(filename: string, target: string): void {
  const source = readFileSync(filename, 'utf8');
  // On the first line of the code, whose number it leaves as it is.
  const mark = `/* ${createHash('sha256').update(source).digest('hex')} */`;
  if (beginOf(target, mark.length) === mark) return;
  mkdirSync(dirname(target), { recursive: true });
  replace(target, `${mark}${transpile(filename, source, true)}`);
}

function beginOf(file: string, length: number): string {
  if (!existsSync(file)) return '';
  const opened = openSync(file, 'r');
  const begin = Buffer.alloc(length);
  readSync(opened, begin);
  closeSync(opened);
  return begin.toString();
}

/** Others read it at the same time: it is whole, or not there. */
function replace(target: string, text: string): void {
  const part = `${target}.${process.pid}`;
  writeFileSync(part, text);
  renameSync(part, target);
}
