import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as Outbox from '../../index.js';
import { refuseUsage } from '../exit-code.js';
import type { Opened } from './opened.js';
import { loadPackage } from './packages.js';
import type { ModuleSource } from './settings.js';
import { createUnstarted, findIn } from './unstarted.js';

/**
 * The outbox of an application.
 * @param tablesApart without a look at its tables
 * @param checked whether they are compared
 */
export async function openModule(
  { file, exported }: ModuleSource,
  tablesApart = false,
  checked = true,
): Promise<Opened> {
  const folder = dirname(file);
  const loaded = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  const app = await createUnstarted(pick(loaded, exported, file), folder, { tablesApart, checked });
  return {
    outbox: await loadPackage<typeof Outbox>('nestjs-outbox', folder),
    get: (token) => findIn(app, token),
    // Hooks of the end belong to an application that has started. Its connections end with the process.
    close: async () => {},
  };
}

/** Whether `@Module()` of Nest is on it. */
function isModule(type: unknown): boolean {
  const { getOwnMetadata } = Reflect as { getOwnMetadata?(key: string, target: unknown): unknown };
  return ['imports', 'providers', 'controllers', 'exports'].some((list) => getOwnMetadata?.(list, type) !== undefined);
}

/** @throws CliError exit code 2: there is no such module, or several */
function pick(loaded: Record<string, unknown>, exported: string | undefined, file: string): unknown {
  // The exports of a CommonJS file are its default export, too.
  const all = { ...Object(loaded['default']), ...loaded } as Record<string, unknown>;
  const classes = Object.keys(all).filter((name) => typeof all[name] === 'function');
  if (exported !== undefined) {
    if (all[exported] !== undefined) return all[exported];
    refuseUsage(`${file} has no export '${exported}'. It has: ${classes.join(', ') || 'no class'}.`);
  }
  for (const name of ['AppModule', 'default']) if (typeof all[name] === 'function') return all[name];
  const modules = classes.filter((name) => isModule(all[name]));
  const [only, ...others] = modules.length > 0 ? modules : classes;
  if (only !== undefined && others.length === 0) return all[only];
  refuseUsage(
    `Which export of ${file} is the module? Give --export, one of: ${classes.join(', ') || 'no class is there'}.`,
  );
}
