import { spawnSync } from 'node:child_process';
import { relative } from 'node:path';

/** Those of these files that have changes which Git does not have. Without Git, or outside of a repository: none. */
export function uncommitted(root: string, paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  const names = paths.map((path) => relative(root, path));
  const arguments_ = ['status', '--porcelain', '--untracked-files=no', '-z', '--', ...names];
  const { status, stdout } = spawnSync('git', arguments_, { cwd: root, encoding: 'utf8', timeout: 30_000 });
  if (status !== 0) return [];
  const entries = stdout.split('\0').filter((entry) => entry !== '');
  return names.filter((name) => entries.some((entry) => entry.endsWith(name.replaceAll('\\', '/'))));
}
