import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CliError, EXIT, refuseUsage } from '../exit-code.js';
import type { Api, TypeScript } from './typescript.js';

/** One application of the folder. All paths are absolute. */
export interface Project {
  /** Where package.json is. */
  readonly root: string;
  /** Of the application: the root, but in a monorepo of Nest's CLI. */
  readonly folder: string;
  readonly sources: string;
  /** The file that starts it. */
  readonly entry: string;
  readonly compiler: TypeScript.CompilerOptions;
  /** From package.json. */
  readonly name: string;
  readonly isModule: boolean;
  readonly dependencies: ReadonlySet<string>;
}

interface NestProject {
  readonly type?: string;
  readonly root?: string;
  readonly sourceRoot?: string;
  readonly entryFile?: string;
  readonly compilerOptions?: { readonly tsConfigPath?: string };
}
interface NestCli extends NestProject {
  readonly projects?: Readonly<Record<string, NestProject>>;
}

/**
 * @param asked which project of a monorepo, and which file starts it
 * @throws CliError
 */
export function findProject(ts: Api, root: string, asked: { project?: string; entry?: string }): Project {
  const manifest = readJson(ts, join(root, 'package.json')) as Manifest | undefined;
  if (manifest === undefined) refuseUsage('There is no package.json here. Run init in the folder of the application.');
  const cli = (readJson(ts, join(root, 'nest-cli.json')) ?? {}) as NestCli;
  const nest = { ...cli, ...pick(cli, asked.project) };
  const folder = join(root, nest.root ?? '');
  const sources = join(root, nest.sourceRoot ?? join(nest.root ?? '', 'src'));
  const entry = asked.entry === undefined ? join(sources, `${nest.entryFile ?? 'main'}.ts`) : join(root, asked.entry);
  if (!existsSync(entry))
    refuseUsage(`The file ${entry} that starts the application is not there. Give it with --entry.`);
  return {
    root,
    folder,
    sources,
    entry,
    compiler: readCompiler(ts, root, folder, nest.compilerOptions?.tsConfigPath),
    name: manifest.name ?? 'app',
    isModule: manifest.type === 'module',
    dependencies: new Set(Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })),
  };
}

interface Manifest {
  readonly name?: string;
  readonly type?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

function pick({ projects = {} }: NestCli, asked: string | undefined): NestProject {
  const applications = Object.entries(projects).filter(([, { type }]) => type !== 'library');
  const names = applications.map(([name]) => name).join(', ');
  if (asked !== undefined) {
    const found = applications.find(([name]) => name === asked);
    if (found === undefined) refuseUsage(`nest-cli.json has no application '${asked}'. It has: ${names || 'none'}.`);
    return found[1];
  }
  if (applications.length > 1) refuseUsage(`nest-cli.json has several applications. Give --project, one of: ${names}.`);
  return applications[0]?.[1] ?? {};
}

function readCompiler(ts: Api, root: string, folder: string, named: string | undefined): TypeScript.CompilerOptions {
  const places = [
    ...(named === undefined ? [] : [join(root, named)]),
    ...[folder, root].flatMap((at) => [join(at, 'tsconfig.app.json'), join(at, 'tsconfig.json')]),
  ];
  const file = places.find((place) => existsSync(place));
  if (file === undefined) return {};
  // No files are looked for: only the options are wanted.
  const host = { ...ts.sys, readDirectory: () => [] };
  return ts.parseJsonConfigFileContent(readJson(ts, file), host, join(file, '..')).options;
}

/** With comments, as Nest's CLI allows. @returns `undefined`: it is not there */
function readJson(ts: Api, file: string): unknown {
  if (!existsSync(file)) return undefined;
  const { config, error } = ts.readConfigFile(file, ts.sys.readFile) as { config?: unknown; error?: unknown };
  if (error !== undefined || typeof config !== 'object' || config === null)
    throw new CliError(EXIT.failed, `${file} cannot be read: its syntax is wrong. Nothing was changed.`);
  return config;
}
