import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
/** Generous: on a busy machine a compiler takes ten times as long as on an idle one. */
const SCRIPT_TIMEOUT = 240_000;
const ROOT = join(__dirname, '..', '..');

export interface ConsumerDescription {
  readonly type: 'commonjs' | 'module';
  readonly dependencies: Readonly<Record<string, string>>;
  readonly compilerOptions: Readonly<Record<string, unknown>>;
  /** Folder below `fixtures`. Default `src`. */
  readonly sources?: string;
}
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** What ended it, if a signal did. */
  readonly signal?: NodeJS.Signals;
}

/** An application outside this repository that installed the packed tarball. */
export class Consumer {
  private constructor(readonly folder: string) {}

  static async create(description: ConsumerDescription): Promise<Consumer> {
    const { type, dependencies, compilerOptions, sources = 'src' } = description;
    const folder = await mkdtemp(join(tmpdir(), 'outbox-consumer-'));
    const consumer = new Consumer(folder);
    const tarball = await packInto(folder);
    await cp(join(ROOT, 'test', 'package', 'fixtures', sources), join(folder, 'src'), { recursive: true });
    await consumer.writeJson('package.json', {
      name: 'consumer',
      private: true,
      type,
      dependencies: { ...dependencies, ...askedFor(dependencies), 'nestjs-outbox': `file:${tarball}` },
    });
    const base = {
      target: 'ES2023',
      lib: ['ES2023'],
      strict: true,
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
      types: ['node'],
      rootDir: 'src',
      outDir: 'out',
      ...compilerOptions,
    };
    // The optional peers are not installed, so their types are unknown to the subpaths, but not to the root.
    await consumer.writeJson('tsconfig.json', { compilerOptions: { ...base, skipLibCheck: true }, include: ['src'] });
    await consumer.writeJson('tsconfig.root.json', {
      compilerOptions: { ...base, skipLibCheck: false, noEmit: true },
      files: ['src/main.ts'],
    });
    const install = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts', '--prefer-offline'];
    await npm([...install, '--loglevel=error'], folder);
    return consumer;
  }

  compile(project = 'tsconfig.json'): Promise<Outcome> {
    return this.node([join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc6'), '-p', project]);
  }

  /** Runs a script inside the application; a script that hangs is killed and has a code other than 0. */
  async node(args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<Outcome> {
    const env = { ...plainEnvironment(), ...environment };
    const options = { cwd: this.folder, env, timeout: SCRIPT_TIMEOUT, killSignal: 'SIGKILL' } as const;
    return outcomeOf(run(process.execPath, args, options));
  }

  /** A command of an installed package, as npx finds it there. */
  async npx(args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<Outcome> {
    const shell = process.platform === 'win32';
    const options = {
      cwd: this.folder,
      env: { ...plainEnvironment(), ...environment },
      timeout: SCRIPT_TIMEOUT,
      shell,
    };
    return outcomeOf(run('npx', ['--no-install', ...args], options));
  }

  async installed(): Promise<string[]> {
    const modules = join(this.folder, 'node_modules');
    const names = await readdir(modules);
    const scopes = names.filter((name) => name.startsWith('@'));
    const scoped = await Promise.all(
      scopes.map(async (scope) => (await readdir(join(modules, scope))).map((name) => `${scope}/${name}`)),
    );
    return [...names, ...scoped.flat()];
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  private writeJson(file: string, content: unknown): Promise<void> {
    return writeFile(join(this.folder, file), JSON.stringify(content, null, 2));
  }
}

/** The package as it would be published. @returns its file */
export async function packInto(folder: string): Promise<string> {
  await run(process.execPath, [join(ROOT, 'tools', 'build.mjs'), '--if-stale']);
  const { stdout } = await npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], ROOT);
  const [packed] = Object.values(JSON.parse(stdout) as Record<string, { filename: string }>);
  return join(folder, packed!.filename);
}

export function npm(
  args: readonly string[],
  cwd: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<{ stdout: string; stderr: string }> {
  const shell = process.platform === 'win32';
  const env = { ...plainEnvironment(), ...environment };
  return run('npm', args, { cwd, env, shell, timeout: 600_000, maxBuffer: 32 * 1024 * 1024 });
}

function outcomeOf(running: Promise<{ stdout: string; stderr: string }>): Promise<Outcome> {
  return running.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: Partial<Outcome>) => ({
      ...(error.signal && { signal: error.signal }),
      code: typeof error.code === 'number' ? error.code : -1,
      stdout: error.stdout ?? '',
      stderr: error.stderr ?? 'could not be started',
    }),
  );
}

/** Of these, what `npm run matrix` wants in another version than the newest of the range. */
function askedFor(dependencies: Readonly<Record<string, string>>): Record<string, string> {
  const specs = (process.env['OUTBOX_TEST_CONSUMER'] ?? '').split(',');
  const versions = specs.map((spec) => [spec.slice(0, spec.lastIndexOf('@')), spec.slice(spec.lastIndexOf('@') + 1)]);
  return Object.fromEntries(versions.filter(([name]) => (name as string) in dependencies)) as Record<string, string>;
}

/** Without what `npm test` and Jest put there: the application is started as if by hand. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const foreign =
    /^(npm_(package|lifecycle|command|execpath|node_execpath|config_local_prefix)|INIT_CWD|JEST_|NODE_OPTIONS|NODE_ENV)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
}
