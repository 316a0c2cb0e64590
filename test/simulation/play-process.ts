import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPESCRIPT = join(process.cwd(), 'tools', 'typescript.mjs');

/** A process of its own that plays what a test asks for: within Jest, where each global is looked up, it takes two to three times as long. */
export class PlayProcess<Asked extends object, Answer> {
  private readonly child: ChildProcess;
  private readonly gone: Promise<never>;

  constructor(file: URL) {
    this.child = fork(fileURLToPath(file), { execArgv: ['--import', TYPESCRIPT], serialization: 'advanced' });
    this.gone = once(this.child, 'exit').then(([code, signal]: unknown[]) => {
      throw new Error(`It ended with ${String(signal ?? code)} instead of an answer.`);
    });
    this.gone.catch(() => undefined);
  }

  /** One at a time. */
  async ask(asked: Asked): Promise<Answer> {
    this.child.send(asked);
    const [answer] = await Promise.race([once(this.child, 'message'), this.gone]);
    return answer as Answer;
  }

  /** Resolves when it is gone. */
  async end(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.gone.catch(() => undefined);
  }
}
