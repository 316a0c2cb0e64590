import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../../support/until.js';
import { Cli, type Ended } from './cli.js';
import type { WarmCli } from './warm-cli.js';

const ROOT = process.cwd();
/** The folder of another compiler than the installed one: `npm run matrix -- typescript`. */
const TYPESCRIPT = process.env['OUTBOX_TEST_TYPESCRIPT'];
/** A compiler on a busy machine. */
const TIMEOUT = 240_000;

function installed(name: string): string {
  return name === 'typescript' && TYPESCRIPT !== undefined ? TYPESCRIPT : join(ROOT, 'node_modules', name);
}

/** An application of its own in a temporary folder, with the packages that are installed here and this one as it is built. */
export class NestApplication {
  private constructor(readonly cli: Cli) {}

  static async create(
    files: Readonly<Record<string, string>>,
    env: Record<string, string> = {},
    warm?: WarmCli,
  ): Promise<NestApplication> {
    const app = new NestApplication(await Cli.create(env, warm));
    app.write(files);
    const modules = join(app.folder, 'node_modules');
    mkdirSync(modules);
    for (const name of readdirSync(join(ROOT, 'node_modules')))
      if (!name.startsWith('.')) symlinkSync(installed(name), join(modules, name));
    symlinkSync(ROOT, join(modules, 'nestjs-outbox'));
    return app;
  }

  get folder(): string {
    return this.cli.folder;
  }

  write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.folder, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
  }

  /** Its own files by name; of the built ones none. */
  files(): Record<string, string> {
    const found: Record<string, string> = {};
    const read = (folder: string): void => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if (['node_modules', 'dist', '.git'].includes(entry.name)) continue;
        if (entry.isDirectory()) read(path);
        else found[relative(this.folder, path)] = readFileSync(path, 'utf8');
      }
    };
    read(this.folder);
    return found;
  }

  text(file: string): string {
    return readFileSync(join(this.folder, file), 'utf8');
  }

  init(...args: string[]): Promise<Ended> {
    return this.cli.run(['init', ...args]);
  }

  compile(project = 'tsconfig.json'): Promise<Ended> {
    return this.node([join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc6'), '-p', project]);
  }

  async node(args: readonly string[]): Promise<Ended> {
    const { PATH, HOME } = process.env;
    const options = { cwd: this.folder, env: { PATH, HOME, ...this.cli.env }, timeout: TIMEOUT };
    return promisify(execFile)(process.execPath, args, options).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }: Ended) => ({ code, stdout, stderr }),
    );
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Starts an application that is built, and stops it with a signal when it has said all of this. @returns what it said */
export async function runUntil(folder: string, url: string, texts: readonly string[]): Promise<string> {
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, PORT: '0', NO_COLOR: '1', DATABASE_URL: url };
  const app = spawn(process.execPath, ['dist/main.js'], { cwd: folder, env });
  const ended = once(app, 'exit');
  let log = '';
  for (const stream of [app.stdout, app.stderr]) stream.setEncoding('utf8').on('data', (part) => (log += part));
  const isThrough = (): boolean => app.exitCode !== null || texts.every((text) => log.includes(text));
  await until(isThrough, TIMEOUT).finally(() => app.kill());
  await ended;
  return log;
}
