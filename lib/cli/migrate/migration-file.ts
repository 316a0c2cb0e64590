import { existsSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { refuseUsage } from '../exit-code.js';
import type { OutboxSchemaOptions } from '../../index.js';

/** As TypeORM names its own files; it is found by each glob of them. */
const FILE = '1795219200000-outbox.ts';

/** A file for applications whose DataSource finds its migrations by a glob. @returns its path, and whether it was there */
export function createMigrationFile(
  root: string,
  folder: string | undefined,
  options: OutboxSchemaOptions,
): { path: string; isNew: boolean } {
  const named = folder ?? 'src/migrations';
  const target = resolve(root, named);
  if (!existsSync(target)) refuseUsage(`The folder ${named} is not there. Name that of your migrations.`);
  const path = join(target, FILE);
  const isNew = !existsSync(path);
  if (isNew) writeFileSync(path, textOf(options), { flag: 'wx' });
  return { path: relative(root, path), isNew };
}

function textOf(options: OutboxSchemaOptions): string {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const list = given.map(([name, value]) => `${name}: ${typeof value === 'string' ? `'${value}'` : value}`).join(', ');
  return `import { outboxMigrations } from 'nestjs-outbox/typeorm';

// All migrations of the outbox, also those of later releases: TypeORM runs each class that a file exports.
export const outbox = outboxMigrations(${list === '' ? '' : `{ ${list} }`});
`;
}
