import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { CliError, EXIT } from '../exit-code.js';
import type { Change } from './plan.js';

/** All of them, or none: each is beside its file before the first one takes its place. @throws CliError */
export function writeAll(root: string, changes: readonly Change[]): void {
  const suffix = `.${randomUUID().slice(0, 8)}.tmp`;
  const done: Change[] = [];
  try {
    for (const change of changes) prepare(root, change, suffix);
    for (const change of changes) {
      renameSync(change.path + suffix, change.path);
      done.push(change);
    }
  } catch (error) {
    for (const { path, before } of done)
      if (before === undefined) rmSync(path);
      else writeFileSync(path, before);
    for (const { path } of changes) rmSync(path + suffix, { force: true });
    if (error instanceof CliError) throw error;
    const { code = 'an error' } = error as { code?: string };
    throw new CliError(EXIT.failed, `The files cannot be written (${code}). Nothing was changed.`, { cause: error });
  }
}

function prepare(root: string, { path, before, after }: Change, suffix: string): void {
  if (before === undefined) return writeFileSync(path + suffix, after, { flag: 'wx' });
  if (readFileSync(path, 'utf8') !== before)
    throw new CliError(
      EXIT.failed,
      `${relative(root, path)} was changed meanwhile. Nothing was changed: run it again.`,
    );
  writeFileSync(path + suffix, after, { flag: 'wx', mode: statSync(path).mode });
}
