import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

const READY_WITHIN = 120_000;
const EXIT_WITHIN = 60_000;

/** One process of the shop. */
export class ShopProcess {
  private constructor(
    readonly name: string,
    readonly child: ChildProcess,
    /** What it said when it was ready. */
    readonly ready: string,
    /** The signal or the exit code that it ended with. */
    readonly ended: Promise<string>,
  ) {}

  get pid(): number {
    return this.child.pid!;
  }

  static async start(name: 'api' | 'relay', env: NodeJS.ProcessEnv): Promise<ShopProcess> {
    const file = new URL(`../${name}.js`, import.meta.url);
    const child = fork(file, { env: { ...process.env, ...env }, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const ended = once(child, 'exit').then(([code, signal]) => String(signal ?? code));
    const failed = ended.then((how) => {
      throw new Error(`the ${name} process ended with ${how} before it was ready`);
    });
    const timeout = once(AbortSignal.timeout(READY_WITHIN), 'abort').then(() => {
      throw new Error(`the ${name} process was not ready within ${READY_WITHIN} ms`);
    });
    failed.catch(() => {});
    timeout.catch(() => {});
    const [message] = (await Promise.race([once(child, 'message'), failed, timeout])) as [{ ready: string }];
    return new ShopProcess(name, child, message.ready, ended);
  }

  /** No warning, no clean-up: as a crash or the kernel does it. */
  async kill(): Promise<void> {
    const gone = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await gone;
  }

  /** As a deployment does it. A process that does not end cleanly is a failure. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = once(this.child, 'exit', { signal: AbortSignal.timeout(EXIT_WITHIN) });
    this.child.kill('SIGTERM');
    const [code] = (await gone.catch(() => {
      this.child.kill('SIGKILL');
      throw new Error(`the ${this.name} process did not end within ${EXIT_WITHIN} ms`);
    })) as [number | null];
    // Without a code somebody's signal ended it: ours, or one that came before ours.
    if (code !== null && code !== 0) throw new Error(`the ${this.name} process ended with ${code}`);
  }
}
