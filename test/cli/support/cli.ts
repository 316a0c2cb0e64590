import { spawn, type ChildProcess } from 'node:child_process';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../../support/until.js';
import type { WarmCli } from './warm-cli.js';

const ROOT = process.cwd();
/** A command that hangs is a failure of its test. */
const TIMEOUT = 120_000;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The built command, as `npx` starts it, in a folder of its own. */
export class Cli {
  private constructor(
    readonly bin: string,
    readonly folder: string,
    readonly env: Readonly<Record<string, string>>,
    private readonly warm: WarmCli | undefined,
  ) {}

  /** @param warm runs the commands of `run`, as long as it is free: for tests of what commands do, and not of how their process ends */
  static async create(env: Readonly<Record<string, string>> = {}, warm?: WarmCli): Promise<Cli> {
    await promisify(execFile)(process.execPath, [join(ROOT, 'tools', 'build.mjs'), '--if-stale'], { cwd: ROOT });
    const { bin } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
      bin: { 'nestjs-outbox': string };
    };
    return new Cli(join(ROOT, bin['nestjs-outbox']), await mkdtemp(join(tmpdir(), 'outbox-cli-')), env, warm);
  }

  /** Its streams are no terminal. Where the database was too busy to count for the command within its second, it runs again. */
  async run(args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}): Promise<Ended> {
    let ended!: Ended;
    await until(async () => {
      ended = await this.runOnce(args, env);
      return !ended.stdout.includes('has not counted the messages');
    });
    return ended;
  }

  async runOnce(args: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<Ended> {
    if (this.warm?.isBusy === false)
      return this.warm.run({ bin: this.bin, args, env: this.environment(env), folder: this.folder }, TIMEOUT);
    const child = this.start(process.execPath, [this.bin, ...args], env);
    child.stdin?.end();
    const [out, err] = [text(child.stdout), text(child.stderr)];
    const [code] = (await once(child, 'exit')) as [number | null];
    return { code, stdout: await out, stderr: await err };
  }

  /** A process that the test may end. Nobody reads what it prints. */
  begin(args: readonly string[]): ChildProcess {
    const child = this.start(process.execPath, [this.bin, ...args], {});
    child.stdin?.end();
    child.stdout?.resume();
    child.stderr?.resume();
    return child;
  }

  /** What `--json` printed. */
  async json(args: readonly string[]): Promise<{ code: number | null; lines: Record<string, any>[]; stderr: string }> {
    const { code, stdout, stderr } = await this.run([...args, '--json']);
    const lines = stdout.split('\n').filter((line) => line !== '');
    return { code, lines: lines.map((line) => JSON.parse(line) as Record<string, any>), stderr };
  }

  /** In a terminal of so many columns. Both streams are in `seen`. */
  inTerminal(
    args: readonly string[],
    { columns = 100, env = {} }: { columns?: number; env?: Record<string, string> } = {},
  ): Seen {
    const words = [process.execPath, this.bin, ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
    const command = `stty cols ${columns} rows 24; exec ${words.join(' ')}`;
    return new Seen(this.start('script', ['-qec', command, '/dev/null'], { TERM: 'xterm-256color', ...env }));
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  private start(
    file: string,
    args: readonly string[],
    env: Readonly<Record<string, string | undefined>>,
  ): ChildProcess {
    return spawn(file, args, {
      cwd: this.folder,
      env: this.environment(env),
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: TIMEOUT,
      killSignal: 'SIGKILL',
    });
  }

  private environment(env: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> {
    const { PATH, HOME } = process.env;
    return { PATH, HOME, ...this.env, ...env };
  }
}

/** What a person sees in a terminal, and types there. */
export class Seen {
  seen = '';
  readonly code: Promise<number | null>;
  private listeners: (() => void)[] = [];

  constructor(readonly child: ChildProcess) {
    this.code = once(child, 'close').then(([code]) => code as number | null);
    child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      this.seen += piece;
      for (const listener of this.listeners.splice(0)) listener();
    });
    void this.code.finally(() => this.listeners.splice(0).forEach((listener) => listener()));
  }

  type(keys: string): void {
    this.child.stdin?.write(keys);
  }

  /** Resolves when it is on the screen. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.seen)) {
      if (this.child.exitCode !== null) throw new Error(`It ended without ${pattern}: ${this.seen}`);
      await new Promise<void>((resolve) => void this.listeners.push(resolve));
    }
  }
}

export const CTRL_C = '\u0003';

async function text(stream: NodeJS.ReadableStream | null): Promise<string> {
  let all = '';
  for await (const piece of stream ?? []) all += String(piece);
  return all;
}
