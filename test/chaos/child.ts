import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Order, Report } from './settings.js';

const READY_TIMEOUT = 120_000;

export function order(child: ChildProcess | undefined, what: Order): void {
  if (child?.connected) child.send(what, () => undefined);
}

export function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('A process did not become ready.')), READY_TIMEOUT);
    child.on('message', ({ kind }: Report) => {
      if (kind !== 'ready') return;
      clearTimeout(timer);
      resolve();
    });
    child.once('exit', () => clearTimeout(timer));
  });
}

export async function flushed(child: ChildProcess | undefined): Promise<void> {
  await answered(child, { kind: 'flush' }, 'flushed');
}

/** `undefined`: it is gone. */
export async function answered(
  child: ChildProcess | undefined,
  what: Order,
  answer: Report['kind'],
): Promise<Report | undefined> {
  if (!child?.connected) return undefined;
  return new Promise((resolve) => {
    const end = (report?: Report): void => {
      child.off('message', heard);
      child.off('exit', gone);
      resolve(report);
    };
    const gone = (): void => end();
    const heard = (report: Report): void => {
      if (report.kind === answer) end(report);
    };
    child.on('message', heard);
    child.on('exit', gone);
    order(child, what);
  });
}

export async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  const harder = setTimeout(() => child.kill('SIGKILL'), 15_000);
  await exited;
  clearTimeout(harder);
}
