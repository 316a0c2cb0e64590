import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Closing } from './run.js';

/** Another file of the benchmarks, in a process of its own. */
export function child(closing: Closing, file: string, args: readonly string[]): ChildProcess {
  const loader = fileURLToPath(new URL('../../tools/typescript.mjs', import.meta.url));
  const started = fork(fileURLToPath(new URL(`../${file}`, import.meta.url)), args, { execArgv: ['--import', loader] });
  closing.add(() => started.kill('SIGTERM'));
  return started;
}

/** Resolves with the child's `ready`; what it tells afterwards goes to `heard`. */
export function untilReady<T>(process: ChildProcess, heard: (message: T) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    process.once('exit', (code) => reject(new Error(`A process ended: ${code}`)));
    process.once('error', reject);
    process.on('message', (message: 'ready' | T) => (message === 'ready' ? resolve() : heard(message)));
  });
}
