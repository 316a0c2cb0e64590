import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { onceAtExit } from '../../../bench/support/own-server.js';
import { until } from '../../support/until.js';

/** Milliseconds after which a process that ended is started again. */
const AGAIN = 1_000;

/** A process of the application, with somebody who starts it again when it ends, as every platform has. */
export class Supervised {
  /** What it and those before it printed. */
  log = '';
  private child: ChildProcess | undefined;
  private wanted = true;
  private readonly kill = onceAtExit(() => this.child?.kill('SIGKILL'));

  /** @param env asked at each start */
  constructor(
    readonly folder: string,
    readonly port: number,
    readonly env: () => Readonly<Record<string, string | undefined>>,
  ) {
    this.start();
  }

  private start(): void {
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, PORT: String(this.port), ...this.env() };
    const args = ['--import', './clock.js', 'main.js'];
    const child = spawn(process.execPath, args, { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (this.log += String(piece)));
    child.once('exit', () => void (this.wanted && setTimeout(() => this.wanted && this.start(), AGAIN)));
    this.child = child;
  }

  /** Resolves when it answers. */
  async ready(): Promise<void> {
    await until(() => this.ask('/health').then(Boolean, () => false), 120_000, 100);
  }

  async ask(page: string, body?: unknown): Promise<string> {
    const request = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const answer = await fetch(`http://127.0.0.1:${this.port}${page}`, {
      ...request,
      signal: AbortSignal.timeout(60_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return text;
  }

  signal(name: NodeJS.Signals): void {
    this.child?.kill(name);
  }

  async stop(): Promise<void> {
    this.wanted = false;
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    this.kill();
    await exited;
  }
}
