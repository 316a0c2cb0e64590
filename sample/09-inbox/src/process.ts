import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

const WITHIN = 120_000;

/** One of the two services in a process of its own. */
export class Service {
  private constructor(
    readonly name: string,
    private readonly child: ChildProcess,
  ) {}

  /** @param services where it is added at once: also what is starting is to be stopped */
  static start(name: string, env: NodeJS.ProcessEnv, services: Service[]): Service {
    const child = fork(new URL(`./${name}.js`, import.meta.url), {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const service = new Service(name, child);
    services.push(service);
    return service;
  }

  on(heard: (news: object) => void): this {
    this.child.on('message', heard);
    return this;
  }

  /** The next that it tells under this name. */
  async told<T>(name: string, ask?: object): Promise<T> {
    const ended = this.ended().then(() => Promise.reject(new Error(`${this.name} ended before it told ${name}`)));
    const heard = new Promise<T>((resolve) => {
      this.child.on('message', (news: Record<string, T>) => name in news && resolve(news[name] as T));
    });
    if (ask !== undefined) this.child.send(ask);
    return Promise.race([heard, ended]);
  }

  /** @returns the signal that ended it, or its exit code */
  async ended(): Promise<string | number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null)
      await once(this.child, 'exit', { signal: AbortSignal.timeout(WITHIN) });
    return this.child.signalCode ?? this.child.exitCode;
  }

  async stop(): Promise<void> {
    this.child.kill('SIGTERM');
    await this.ended().catch(() => this.child.kill('SIGKILL'));
  }
}
