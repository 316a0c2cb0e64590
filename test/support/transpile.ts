import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { transformSync } from '@swc/core';

/** JavaScript of a TypeScript file, as an ES module. Types are not checked. */
export function transpile(filename: string, source = readFileSync(filename, 'utf8'), sourceMaps = false): string {
  const { code } = transformSync(source, {
    filename,
    sourceMaps: sourceMaps ? 'inline' : false,
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

/** All of a folder but its tests. */
export function transpileFolder(from: string, to: string): void {
  for (const filename of sourcesIn(from)) {
    const target = join(to, relative(from, filename)).replace(/\.ts$/, '.js');
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, transpile(filename));
  }
}

export function sourcesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.spec.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}
