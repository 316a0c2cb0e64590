import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { refuseUsage } from '../exit-code.js';
import type { formOf } from '../../data-layers/tables/index.js';
import type { OutboxSchemaOptions } from '../../index.js';

interface Made {
  readonly path: string;
  /** Whether it was not there. */
  readonly isNew: boolean;
}
/** Of files as TypeORM names its own: each glob of them finds it. */
const TIMES = { outbox: '1795219200000', inbox: '1796000000000' } as const;
type Whose = keyof typeof TIMES;

/** A file for applications whose DataSource finds its migrations by a glob. */
export function createTypeOrmFile(
  root: string,
  folder = 'src/migrations',
  options: OutboxSchemaOptions = {},
  whose: Whose = 'outbox',
): Made {
  const path = join(there(root, folder), `${TIMES[whose]}-${whose}.ts`);
  const isNew = !existsSync(path);
  if (isNew) writeFileSync(path, textOf(options, whose), { flag: 'wx' });
  return { path: relative(root, path), isNew };
}

/** A file of another migrator, with the statements in it: it runs them, and never asks for this package. */
export function createMigrationFile(
  root: string,
  form: ReturnType<typeof formOf>,
  folder = form.folder,
  prefix = 'outbox_',
): Made {
  const name = prefix.replace(/_+$/, '');
  const target = there(root, folder);
  const entry = readdirSync(target).find((one) => new RegExp(`\\d_${name}(\\.\\w+)?$`).test(one));
  if (form.madeBy !== undefined && entry === undefined)
    refuseUsage(`${folder} has no migration '${name}'. Make an empty one: ${form.madeBy} ${name}.`);
  const now = new Date().toISOString().replaceAll(/\D/g, '').slice(0, 14);
  const found = entry === undefined || entry.includes('.') ? entry : join(entry, 'migration.sql');
  const path = join(target, found ?? form.path(now, name));
  const isNew = found === undefined || (form.madeBy !== undefined && !/^(?!--|\s*$)/m.test(readFileSync(path, 'utf8')));
  if (isNew) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, form.text(relative(target, path)));
  }
  return { path: relative(root, path), isNew };
}

function there(root: string, folder: string): string {
  const target = resolve(root, folder);
  return existsSync(target) ? target : refuseUsage(`The folder ${folder} is not there. Name yours, or make it.`);
}

function textOf(options: OutboxSchemaOptions, whose: Whose): string {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const list = given.map(([name, value]) => `${name}: ${typeof value === 'string' ? `'${value}'` : value}`).join(', ');
  return `import { ${whose}Migrations } from 'nestjs-outbox/${whose === 'inbox' ? 'inbox' : 'typeorm'}';

// All migrations of the ${whose}, also those of later releases: TypeORM runs each class that a file exports.
export const ${whose} = ${whose}Migrations(${list === '' ? '' : `{ ${list} }`});
`;
}
