import { readdir, readFile } from 'node:fs/promises';
import { outboxSql } from 'nestjs-outbox';
import { Client } from 'pg';

/** The outbox's own: tables of `public` that schema.prisma does not have look to `prisma migrate dev` like ones to drop. */
export const SCHEMA = 'outbox';
const MIGRATIONS = new URL('../prisma/migrations/', import.meta.url);

/** Makes a database for this run. @returns its URL, and what removes it */
export async function createDatabase(server: string, name: string): Promise<{ url: string; drop(): Promise<void> }> {
  const url = new URL(server);
  url.pathname = name;
  await run(server, `create database ${name}`);
  return { url: url.href, drop: () => run(server, `drop database ${name} with (force)`) };
}

/**
 * An application keeps the outbox's SQL as one more migration (`npx nestjs-outbox migrate print postgres --schema outbox`), and runs
 * `prisma migrate deploy`. That needs an engine which Prisma downloads, and this sample runs without: it sends the same files.
 */
export async function migrate(url: string): Promise<void> {
  const names = (await readdir(MIGRATIONS)).sort();
  for (const name of names) await run(url, await readFile(new URL(`${name}/migration.sql`, MIGRATIONS), 'utf8'));
  await run(url, outboxSql('postgres', { schema: SCHEMA }).up);
}

async function run(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
