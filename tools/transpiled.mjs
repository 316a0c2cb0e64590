import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { transformSync } from '@swc/core';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/** Imports one TypeScript file of this repository that itself imports packages only. */
export async function transpiled(file) {
  const source = readFileSync(join(root, file), 'utf8');
  const id = createHash('sha256').update(source).digest('hex').slice(0, 12);
  const target = join(root, 'node_modules', '.cache', 'nestjs-outbox', `${id}.mjs`);
  const { code } = transformSync(source, {
    filename: file,
    jsc: { target: 'es2022', parser: { syntax: 'typescript', decorators: true } },
    module: { type: 'es6' },
  });
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(`${target}.${process.pid}`, code);
  renameSync(`${target}.${process.pid}`, target);
  return import(pathToFileURL(target).href);
}
