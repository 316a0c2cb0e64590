import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { makeFolder, onceAtExit, UNPRIVILEGED } from '../../bench/support/own-server.js';

export interface SmallDisk {
  readonly folder: string;
  /** To so many megabytes. */
  enlarge(megabytes: number): void;
  remove(): void;
}

/**
 * A disk of so many megabytes, in memory, that belongs to a server which a test starts.
 * @returns nothing where this process may not mount
 */
export function mountSmallDisk(megabytes: number): SmallDisk | undefined {
  const folder = makeFolder('small-disk');
  const { uid = process.getuid?.(), gid = process.getgid?.() } = UNPRIVILEGED;
  const options = `size=${megabytes}m,uid=${uid},gid=${gid},mode=700`;
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0;
  const remove = onceAtExit(() => {
    // Lazily: a server that ends may still have files in it.
    if (mounted) spawnSync('umount', ['-l', folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  const enlarge = (size: number): void => {
    const { status, stderr } = spawnSync('mount', ['-o', `remount,size=${size}m`, folder], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
  };
  if (mounted) return { folder, enlarge, remove };
  remove();
  return undefined;
}
