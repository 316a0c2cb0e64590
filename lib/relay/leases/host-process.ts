import { createHash } from 'node:crypto';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';

/** SEAM: which processes of this machine have ended. */
export interface Processes {
  /** By what the others on this machine know this process again; `undefined`: by nothing. */
  readonly life: string | undefined;
  /** Whether that process has ended. False wherever it is not certain. */
  isGone(life: string): Promise<boolean>;
}

/** Of a place where no process is known. */
export const NO_PROCESSES: Processes = { life: undefined, isGone: async () => false };

/** What of the system is asked. */
export interface HostSystem {
  readonly pid: number;
  readonly hostname: string;
  read(path: string): Promise<string>;
  readLink(path: string): Promise<string>;
  /** Throws what `kill(pid, 0)` answers. */
  ask(pid: number): void;
}

/**
 * A life is `<host>.<pid>.<start>`. The host is a digest of boot, pid and time namespace and hostname: where one of them differs,
 * pids and start times say nothing of each other, and nobody is gone. That is so for each container, also for one that starts again,
 * unless they share a pid namespace. The kernel may give the number of a pid namespace again, but only once all processes in it have ended.
 *
 * The start tells a process from a later one with its pid. A process that may not be seen (`EPERM`, `hidepid`) is not gone, and one that
 * is stopped neither. A system without `/proc` (macOS, Windows) proves nothing: there a lease is waited for.
 *
 * Machines that were resumed from one image of memory have the same boot: hostnames must tell them apart.
 */
export async function hostProcesses(system: HostSystem = THIS): Promise<Processes> {
  const host = await hostOf(system);
  const own = host === undefined ? undefined : await statOf(system, 'self');
  // A `/proc` of another pid namespace calls this process by another number, or does not know it.
  const known = own?.pid === String(system.pid) ? own : undefined;
  return {
    life: known && `${host}.${known.pid}.${known.start}`,
    async isGone(life) {
      const [, there, pid = '', start] = LIFE.exec(life) ?? [];
      if (known === undefined || there !== host) return false;
      try {
        system.ask(Number(pid));
      } catch (error) {
        return (error as NodeJS.ErrnoException).code === 'ESRCH';
      }
      const now = await statOf(system, pid);
      return now !== undefined && (now.start !== start || now.isOver);
    },
  };
}

async function hostOf(system: HostSystem): Promise<string | undefined> {
  try {
    const boot = (await system.read('/proc/sys/kernel/random/boot_id')).trim();
    const parts = [boot, await system.readLink('/proc/self/ns/pid'), await timeOf(system), system.hostname];
    return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 16);
  } catch {
    return undefined;
  }
}

/** Start times are told in the reader's time namespace. Linux before 5.6 has one for all. */
async function timeOf(system: HostSystem): Promise<string> {
  try {
    return await system.readLink('/proc/self/ns/time');
  } catch {
    return '';
  }
}

interface Stat {
  readonly pid: string;
  /** Clock ticks since the boot. */
  readonly start: string;
  /** A zombie: nothing of it runs any more. While a thread is left, something does. */
  readonly isOver: boolean;
}

/** Fields 1, 3, 20 and 22 of `/proc/<pid>/stat`; the second is the command, with whatever characters. */
async function statOf(system: HostSystem, pid: string): Promise<Stat | undefined> {
  try {
    const text = await system.read(`/proc/${pid}/stat`);
    const rest = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [state = '', threads = '', start = ''] = [rest[0], rest[17], rest[19]];
    if (!/^\d+$/.test(start)) return undefined;
    return { pid: text.slice(0, text.indexOf(' ')), start, isOver: /^[ZX]$/.test(state) && Number(threads) <= 1 };
  } catch {
    return undefined;
  }
}

const LIFE = /^([0-9a-f]{16})\.([1-9]\d{0,9})\.(\d{1,20})$/;

const THIS: HostSystem = {
  pid: process.pid,
  hostname: hostname(),
  read: (path) => readFile(path, 'latin1'),
  readLink: (path) => readlink(path),
  ask: (pid) => void process.kill(pid, 0),
};
