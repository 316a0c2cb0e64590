import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { end, heard } from '../../processes/fleet.js';
import { startFile } from '../../support/own-process.js';
import type { Ended } from './cli.js';

export interface Asked {
  /** The file that `npx` would start. */
  readonly bin: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
}

/** A process that runs commands one after the other, started with the first one. */
export class WarmCli {
  private child: ChildProcess | undefined;
  private running = 0;

  get isBusy(): boolean {
    return this.running > 0;
  }

  /** @param timeout milliseconds: a command that takes longer is ended with its process, and fails */
  async run(asked: Asked, timeout: number): Promise<Ended> {
    this.running += 1;
    try {
      const child = (this.child ??= await this.start());
      const late = setTimeout(() => child.kill('SIGKILL'), timeout);
      const ended = new AbortController();
      try {
        child.send(asked);
        const answer = once(child, 'message', { signal: ended.signal }).then(([message]) => message as Ended);
        const gone = once(child, 'exit', { signal: ended.signal }).then(() => {
          this.child = undefined;
          throw new Error(`The process ended within, or was ended after ${timeout} ms: ${asked.args.join(' ')}`);
        });
        return await Promise.race([answer, gone]);
      } finally {
        clearTimeout(late);
        ended.abort();
      }
    } finally {
      this.running -= 1;
    }
  }

  async end(): Promise<void> {
    const { child } = this;
    this.child = undefined;
    if (child !== undefined) await end(child, 'SIGKILL');
  }

  private async start(): Promise<ChildProcess> {
    const child = startFile('test/processes/command-process.ts', {});
    await heard(child, 'ready');
    return child;
  }
}

/** One for the tests of a `describe`. */
export function useWarmCli(): WarmCli {
  const warm = new WarmCli();
  afterAll(() => warm.end());
  return warm;
}
