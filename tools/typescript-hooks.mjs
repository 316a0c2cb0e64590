import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformSync, version } from '@swc/core';

const root = fileURLToPath(new URL('..', import.meta.url));
/** JavaScript of each file, behind the hash of its source: a test that starts a hundred processes compiles once. */
const cache = join(root, 'node_modules', '.cache', 'nestjs-outbox', 'typescript');
mkdirSync(cache, { recursive: true });

/** `./x.js` in our sources is `./x.ts` on the disk. */
export async function resolve(specifier, context, next) {
  if (specifier.startsWith('.') && specifier.endsWith('.js') && context.parentURL?.endsWith('.ts')) {
    const url = new URL(`${specifier.slice(0, -3)}.ts`, context.parentURL);
    if (existsSync(fileURLToPath(url))) return { url: url.href, shortCircuit: true };
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const filename = fileURLToPath(url);
  return { format: 'module', source: compiled(filename), shortCircuit: true };
}

function compiled(filename) {
  const source = readFileSync(filename, 'utf8');
  if (!filename.startsWith(root)) return compile(filename, source); // a copy that is made for one run
  const target = join(cache, `${hash(filename)}.mjs`);
  // In front of all but a shebang, which is none anywhere else.
  const shebang = /^#!.*\n/.exec(source)?.[0] ?? '';
  const mark = `${shebang}/* ${hash(`${version} ${source}`)} */`;
  const known = existsSync(target) ? readFileSync(target, 'utf8') : '';
  if (known.startsWith(mark)) return known;
  const code = `${mark}${compile(filename, source.slice(shebang.length))}`;
  // Others read it at the same time: it is whole, or not there.
  const part = `${target}.${process.pid}`;
  writeFileSync(part, code);
  renameSync(part, target);
  return code;
}

const hash = (text) => createHash('sha256').update(text).digest('hex');

function compile(filename, source) {
  const { code } = transformSync(source, {
    filename,
    sourceMaps: 'inline',
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true },
      keepClassNames: true,
    },
    module: { type: 'es6' },
  });
  return code;
}
