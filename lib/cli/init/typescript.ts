import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type * as TypeScript from 'typescript';
import { CliError, EXIT } from '../exit-code.js';

export type Api = typeof TypeScript;
export type { TypeScript };

/**
 * The compiler that the application has, for its parser: this package brings none. TypeScript 7 has no such parser; Nest's CLI
 * has TypeScript 6 as a dependency of its own.
 * @param folder absolute
 * @throws CliError exit code 1: nobody has it
 */
export function loadTypeScript(folder: string): Api {
  const own = join(folder, 'x.js');
  const cli = packageFile('@nestjs/cli', folder);
  const places: readonly [string, string][] = [
    ['typescript', own],
    ...(cli === undefined ? [] : [['typescript', cli] as [string, string]]),
    ['@typescript/typescript6', own],
  ];
  for (const [name, base] of places) {
    const api = required(name, base);
    if (typeof api?.createSourceFile === 'function') return api;
  }
  throw new CliError(
    EXIT.failed,
    'init reads the application with the parser of TypeScript 5 or 6, and none is installed: npm install --save-dev @typescript/typescript6.',
  );
}

function required(name: string, base: string): (Partial<Api> & Api) | undefined {
  try {
    return createRequire(base)(name) as Api;
  } catch {
    return undefined;
  }
}

/** Of a package that may hide it from `require`. */
function packageFile(name: string, folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, 'node_modules', name, 'package.json');
    if (existsSync(file)) return file;
    if (at === dirname(at)) return undefined;
  }
}
