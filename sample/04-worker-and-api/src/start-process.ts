import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

const READY_WITHIN = 120_000;
const EXIT_WITHIN = 60_000;

export interface Started {
  readonly child: ChildProcess;
  readonly ready: string;
  /** Everything else that it told. */
  readonly messages: unknown[];
  /** SIGTERM; resolves when it ended cleanly. */
  stop(): Promise<void>;
}

export async function startProcess(name: string, env: NodeJS.ProcessEnv): Promise<Started> {
  const child = fork(new URL(`./${name}.js`, import.meta.url), {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const messages: unknown[] = [];
  const ready = new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${name} was not ready in time`)), READY_WITHIN);
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it was ready`)));
    child.on('message', (message: { ready?: string }) => {
      if (message.ready === undefined) messages.push(message);
      else {
        clearTimeout(timer);
        resolve(message.ready);
      }
    });
  });
  return { child, ready: await ready, messages, stop: () => stop(name, child) };
}

async function stop(name: string, child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit', { signal: AbortSignal.timeout(EXIT_WITHIN) });
  child.kill('SIGTERM');
  const [code, signal] = (await exit.catch(() => {
    child.kill('SIGKILL');
    return [null, 'SIGKILL'];
  })) as [number | null, string | null];
  if (code !== 0 && signal !== 'SIGTERM') throw new Error(`${name} ended with ${signal ?? code} on SIGTERM`);
}
