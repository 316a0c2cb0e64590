import { createRequire } from 'node:module';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CliError, EXIT } from '../exit-code.js';

/** The file that runs now, where a link in `node_modules/.bin` leads to. */
const ownFile = (): string => realpathSync(process.argv[1] as string);

const OWN_NAME = 'nestjs-outbox';
/** What is loaded of a copy of this package. */
const OWN_FILES: Readonly<Record<string, string>> = {
  [OWN_NAME]: 'index.js',
  [`${OWN_NAME}/pg`]: 'data-layers/pg/index.js',
  [`${OWN_NAME}/mysql2`]: 'data-layers/mysql2/index.js',
  [`${OWN_NAME}/tables`]: 'data-layers/tables/index.js',
  [`${OWN_NAME}/inbox-steps`]: 'inbox/steps.js',
};

/** Of this package. */
export function packageVersion(): string {
  for (let folder = dirname(ownFile()); folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, 'package.json');
    if (!existsSync(file)) continue;
    const { name, version } = JSON.parse(readFileSync(file, 'utf8')) as { name?: string; version?: string };
    if (name === OWN_NAME && version !== undefined) return version;
  }
  return 'unknown';
}

/**
 * A package as the application has it: its own copy of this one, and of its peers, else those that this file has.
 * @param folder absolute
 * @throws CliError exit code 1: nobody has it
 */
export async function loadPackage<T>(name: string, folder: string): Promise<T> {
  const own = OWN_FILES[name];
  const there = (what: string): string | undefined => resolved(what, join(folder, 'any.js'));
  const file =
    own === undefined
      ? (there(name) ?? resolved(name, ownFile()))
      : join(dirname(there(OWN_NAME) ?? join(dirname(ownFile()), '..', 'any.js')), own);
  if (file !== undefined) return (await import(pathToFileURL(file).href)) as T;
  throw new CliError(EXIT.failed, `The package ${name} is not installed: npm install ${name}.`);
}

function resolved(name: string, base: string): string | undefined {
  try {
    return createRequire(base).resolve(name);
  } catch {
    return undefined;
  }
}
