import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type * as TypeScript from 'typescript';
import { refuseUsage } from '../exit-code.js';
import { Application } from './application.js';

interface NestProject extends Partial<Record<'type' | 'root' | 'sourceRoot' | 'entryFile', string>> {
  readonly projects?: Readonly<Record<string, NestProject>>;
}
const NO_SOURCES = ['**/node_modules', '**/dist', '**/test', '**/*.spec.ts', '**/*.test.ts', '**/*.d.ts'];

/**
 * The application of a folder, parsed by a compiler that the folder has. Types and packages are not read.
 * @param root absolute
 * @throws CliError
 */
export function openApplication(root: string, asked: Readonly<Record<string, unknown>>): Application {
  const ts = loadTypeScript(root);
  // Of a file that is not there: {}. It may have comments.
  const cli = ts.readConfigFile(join(root, 'nest-cli.json'), ts.sys.readFile).config as NestProject;
  const projects = Object.entries(cli.projects ?? {}).filter(([, { type }]) => type !== 'library');
  const chosen = projects.filter(([name]) => name === (asked['project'] ?? name));
  if (chosen.length > 1 || (chosen.length === 0 && asked['project'] !== undefined))
    refuseUsage(`Give --project with an application of nest-cli.json: ${projects.map(([name]) => name).join(', ')}.`);
  const nest = { ...cli, ...chosen[0]?.[1] };
  const usual = join(nest.sourceRoot ?? join(nest.root ?? '', 'src'), `${nest.entryFile ?? 'main'}.ts`);
  const entry = join(root, String(asked['entry'] ?? usual));
  if (!existsSync(entry))
    refuseUsage(`The file ${entry} that starts the application is not there. Give it with --entry.`);
  const others = projects.flatMap(([, project]) => (project === chosen[0]?.[1] ? [] : (project.root ?? [])));
  const files = ts.sys.readDirectory(root, ['.ts'], [...NO_SOURCES, ...others]);
  const options = { noResolve: true, noLib: true, types: [] };
  const program = ts.createProgram([entry, ...files], options, ts.createCompilerHost(options, true));
  return new Application(ts, root, program, program.getSourceFile(entry) as TypeScript.SourceFile);
}

/** TypeScript 7 has no parser for others. Nest's CLI brings TypeScript 5 or 6. */
function loadTypeScript(root: string): typeof TypeScript {
  const modules = createRequire(join(root, 'x.js')).resolve.paths('@nestjs/cli') ?? [];
  const places = [root, ...modules.map((folder) => join(folder, '@nestjs', 'cli'))];
  for (const name of ['typescript', '@typescript/typescript6'])
    for (const place of places)
      try {
        const api = createRequire(join(place, 'x.js'))(name) as Partial<typeof TypeScript>;
        if (api.createProgram !== undefined) return api as typeof TypeScript;
      } catch {
        // It is not there.
      }
  return refuseUsage(
    'init needs TypeScript 5 or 6, and this folder has none. Run it in the folder of the application, or: npm install --save-dev @typescript/typescript6.',
  );
}
