import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder, onceAtExit, UNPRIVILEGED } from '../../bench/support/own-server.js';

const MEGABYTES = 128;

/**
 * A disk that can stand still: whoever writes to it waits, and a power failure leaves what was on it at that moment. A file
 * system in a file, frozen and thawed; needs the right to mount.
 */
export class LossyDisk {
  /** @internal */ standing = false;
  /** @internal */ readonly stopOnce: () => void;

  private constructor(
    /** @internal */ readonly mounted: string,
    /** @internal */ readonly kept: string,
    home: string,
  ) {
    this.stopOnce = onceAtExit(() => {
      this.go();
      spawnSync('umount', ['--lazy', mounted]); // a process that was killed may not be gone yet
      rmSync(home, { recursive: true, force: true });
    });
  }

  /** @returns nothing where this process may not mount */
  static mount(): LossyDisk | undefined {
    const home = makeFolder('lossy-disk');
    const [image, mounted, kept] = ['image', 'mounted', 'kept'].map((name) => join(home, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(image, '');
    truncateSync(image, MEGABYTES * 2 ** 20);
    mkdirSync(mounted);
    const succeeds = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0;
    if (succeeds('mkfs.ext4', '-q', '-F', image) && succeeds('mount', '-o', 'loop', image, mounted))
      return new LossyDisk(mounted, kept, home);
    rmSync(home, { recursive: true, force: true });
    return undefined;
  }

  /** Whether this process may mount. */
  static works(): boolean {
    const disk = LossyDisk.mount();
    disk?.remove();
    return disk !== undefined;
  }

  /** A folder on it, for a server. */
  folder(name: string): string {
    const folder = join(this.mounted, name);
    mkdirSync(folder);
    if (UNPRIVILEGED.uid !== undefined) chownSync(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
    return folder;
  }

  /** From now on nothing that is written gets onto it. */
  stand(): void {
    run('fsfreeze', '--freeze', this.mounted);
    this.standing = true;
    rmSync(this.kept, { recursive: true, force: true });
    run('cp', '--archive', this.mounted, this.kept);
  }

  /** Whoever waits goes on. */
  go(): void {
    if (!this.standing) return;
    run('fsfreeze', '--unfreeze', this.mounted);
    this.standing = false;
  }

  /** After a power failure: what is on it is what was when it stood still. */
  restore(): void {
    run('cp', '--archive', `${this.kept}/.`, this.mounted);
  }

  remove(): void {
    this.stopOnce();
  }
}

function run(command: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${stderr}`);
}
