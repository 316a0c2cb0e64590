import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

const READY_WITHIN = 120_000;
const EXIT_WITHIN = 60_000;

export interface Started {
  readonly pid: number;
  /** What it told when it was ready. */
  readonly ready: string;
}
export type Stop = () => Promise<void>;

/** Starts `<name>/main.js`; `stops` has the way to end it, also while it starts. */
export async function startProcess(name: string, env: NodeJS.ProcessEnv, stops: Stop[]): Promise<Started> {
  const child = fork(new URL(`./${name}/main.js`, import.meta.url), {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  stops.push(() => stop(name, child));
  const within = { signal: AbortSignal.timeout(READY_WITHIN) };
  const [answer] = (await Promise.race([once(child, 'message', within), once(child, 'exit', within)])) as [unknown];
  const { ready } = (answer ?? {}) as { ready?: string };
  if (ready === undefined) throw new Error(`${name} ended before it was ready`);
  return { pid: child.pid ?? 0, ready };
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
