import { randomBytes } from 'node:crypto';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { requiredUrl, type DatabaseKind } from './services.js';

export interface TestDatabase<Kind extends DatabaseKind = DatabaseKind> {
  readonly kind: Kind;
  readonly url: string;
  /** For `new DataSource(...)`; nothing else set. */
  readonly options: DataSourceOptions;
  drop(): Promise<void>;
}

/** A database of its own for one test file, dropped at the end. */
export async function createTestDatabase<Kind extends DatabaseKind>(
  kind: Kind,
  server = requiredUrl(kind),
  /** PostgreSQL: of which it is a copy. */
  like?: string,
): Promise<TestDatabase<Kind>> {
  const name = `outbox_test_${randomBytes(6).toString('hex')}`;
  // A server without a locale would make it SQL_ASCII, which is refused.
  const utf8 = kind === 'postgres' ? ` template ${like ?? `template0 encoding 'UTF8'`}` : '';
  await onServer(kind, server, `create database ${name}${utf8}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  // As it is from PostgreSQL 15 on; older ones let everybody create, which the start warns of.
  if (kind === 'postgres') await onServer(kind, url.href, 'revoke create on schema public from public');
  return {
    kind,
    url: url.href,
    options: optionsFor(kind, url.href),
    drop: () => onServer(kind, server, `drop database if exists ${name}${kind === 'postgres' ? ' with (force)' : ''}`),
  };
}

function optionsFor(kind: DatabaseKind, url: string): DataSourceOptions {
  if (kind === 'postgres') return { type: 'postgres', url };
  return { type: kind === 'mariadb' ? 'mariadb' : 'mysql', url, timezone: 'Z' };
}

async function onServer(kind: DatabaseKind, url: string, sql: string): Promise<void> {
  const server = await new DataSource(optionsFor(kind, url)).initialize();
  try {
    await server.query(sql);
  } finally {
    await server.destroy();
  }
}

/** What `outboxSql` gives as text: without an empty line in a statement, as MariaDB and MySQL take one at a time. */
export async function runScript(kind: DatabaseKind, db: Pick<DataSource, 'query'>, sql: string): Promise<void> {
  const statements = kind === 'postgres' ? [sql] : sql.split(/;\n\n?(?=\S|$)/);
  for (const text of statements) if (text.trim() !== '') await db.query(text);
}

/** A table `s` with the numbers 1 to `count` in its column `seq`. */
export function series(kind: DatabaseKind, count: number): string {
  if (kind === 'postgres') return `generate_series(1, ${count}) as s(seq)`;
  if (kind === 'mariadb') return `seq_1_to_${count} as s`;
  return `json_table(concat('[0', repeat(',0', ${count - 1}), ']'), '$[*]' columns (seq for ordinality)) as s`;
}
