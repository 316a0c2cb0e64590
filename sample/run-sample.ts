import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** One `node sample/start.mjs …`, as a reader of its README runs it. */
export class SampleRun {
  output = '';
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;

  constructor(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const start = join(process.cwd(), 'sample', 'start.mjs');
    const { DATABASE_URL: _, ...inherited } = process.env;
    this.child = spawn(process.execPath, [start, ...args], { env: { ...inherited, NO_COLOR: '1', ...env } });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    this.ended = once(this.child, 'close').then(([code]) => code as number | null);
  }

  /** What the sample printed, with its exit code in the last line, or what it printed until its time was up. */
  async finish(within: number): Promise<string> {
    const timer = setTimeout(() => this.child.kill('SIGTERM'), within);
    const code = await this.ended;
    clearTimeout(timer);
    return `${this.output}\nexit ${code}`;
  }

  async printed(pattern: RegExp, within: number): Promise<RegExpExecArray> {
    for (const until = Date.now() + within; Date.now() < until && this.child.exitCode === null;) {
      const found = pattern.exec(this.output);
      if (found !== null) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`${pattern} was not printed: ${this.output}`);
  }

  async stop(): Promise<void> {
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    await this.ended;
  }
}
