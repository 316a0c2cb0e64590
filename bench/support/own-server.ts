import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A server that a benchmark started, and that nobody else loads. */
export interface OwnServer {
  readonly url: string;
  readonly pid: number;
  /** Its folder, with its log. */
  readonly folder: string;
  /** Synchronous and repeatable: it also runs when the process exits. */
  stop(): void;
}

/** Database servers refuse to run as root. */
export const UNPRIVILEGED: { uid?: number; gid?: number } = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** A folder in memory where there is a tmpfs, so that no disk takes part in what is measured. */
export function makeFolder(name: string): string {
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : '/tmp', `outbox-bench-${name}-`));
  if (UNPRIVILEGED.uid !== undefined) chownSync(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
  return folder;
}

/** A server of MariaDB that starts removes the temporary tables of all others that have theirs in the same folder. */
export const placed = (folder: string) => ({ cwd: folder, env: { ...process.env, TMPDIR: folder } });

export function runCommand(command: string, args: readonly string[], cwd: string): void {
  const { status, stderr, stdout, error } = spawnSync(command, args, {
    encoding: 'utf8',
    ...placed(cwd),
    ...UNPRIVILEGED,
  });
  if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? `${stderr}${stdout}`}`);
}

/** Runs once: when it is called, or when this process exits for whatever reason but SIGKILL. */
export function onceAtExit(stop: () => void): () => void {
  const once = (): void => {
    process.off('exit', once);
    stop();
  };
  process.once('exit', once);
  return once;
}

/** By its id, as the server wrote it down; the folder goes with it. */
export function killAndRemove(pidFile: string, folder: string): void {
  const pid = existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8').split('\n')[0]) : NaN;
  if (Number.isInteger(pid)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

/** See there: no connection to elsewhere takes it. Found from the root, as this file also runs compiled, in another folder. */
export async function freePort(): Promise<number> {
  const file = pathToFileURL(join(process.cwd(), 'tools/services/free-port.mjs')).href;
  const ports = (await import(file)) as { freePort(): Promise<number> };
  return ports.freePort();
}
