import type { SchemaScript } from '../../store/names.js';
import { definitionOf, TABLES, type OutboxDialect, type OutboxSchemaOptions } from '../drivers/outbox-sql.js';

/** How a migrator has a migration. */
export interface Form {
  /** Where its migrations are, unless somebody says so. */
  readonly folder: string;
  /** From the folder. @param stamp 14 digits, as each of them orders its migrations by */
  path(stamp: string, name: string): string;
  /** What makes it, empty: then it is filled. */
  readonly madeBy?: string;
  text(script: SchemaScript, path: string): string;
}

/** Those that take SQL take the way up alone. */
const sql =
  (between: string) =>
  ({ up }: SchemaScript): string =>
    up.map((statement) => `${statement};\n`).join(between);

/** Each statement by itself: drivers take no two in one text. */
const calls = (statements: readonly string[], [before, after]: readonly [string, string], indent: string): string =>
  statements
    .map((statement) => `${indent}${before}\`${statement.replaceAll(/[\\`]|\$\{/g, '\\$&')}\`${after};\n`)
    .join('');

const functions =
  (export_: string, head: string, run: readonly [string, string]) =>
  ({ up, down }: SchemaScript): string =>
    `${head}${export_}up = async (db) => {\n${calls(up, run, '  ')}};\n
// It drops what is in the tables, too.\n${export_}down = async (db) => {\n${calls(down, run, '  ')}};\n`;

const FORMS: Readonly<Record<string, Form>> = {
  prisma: {
    folder: 'prisma/migrations',
    path: (stamp, name) => `${stamp}_${name}/migration.sql`,
    text: sql('\n'),
  },
  drizzle: {
    folder: 'drizzle',
    path: (stamp, name) => `${stamp}_${name}.sql`,
    madeBy: 'npx drizzle-kit generate --custom --name',
    text: sql('--> statement-breakpoint\n'),
  },
  knex: {
    folder: 'migrations',
    path: (stamp, name) => `${stamp}_${name}.cjs`, // read by any application
    text: functions('exports.', '', ['await db.raw(', ')']),
  },
  kysely: {
    folder: 'migrations',
    path: (stamp, name) => `${stamp}_${name}.mjs`,
    text: functions('export const ', `import { sql } from 'kysely';\n\n`, ['await sql.raw(', ').execute(db)']),
  },
  'mikro-orm': {
    folder: 'migrations',
    path: (stamp, name) => `Migration${stamp}_${name}.ts`,
    text: ({ up, down }, path) => `import { Migration } from '@mikro-orm/migrations';

export class ${path.slice(0, -'.ts'.length)} extends Migration {
  override async up(): Promise<void> {\n${calls(up, ['this.addSql(', ')'], '    ')}  }

  // It drops what is in the tables, too.
  override async down(): Promise<void> {\n${calls(down, ['this.addSql(', ')'], '    ')}  }
}\n`,
  },
};

export function formOf(migrator: string, dialect: OutboxDialect, options: OutboxSchemaOptions, own?: SchemaScript) {
  const script = own ?? TABLES[dialect](definitionOf(options));
  const { text, ...form } = FORMS[migrator] as Form;
  return { ...form, text: (path: string) => text(script, path) };
}
