import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as migrateFolder } from 'drizzle-orm/node-postgres/migrator';
import { outboxSql } from 'nestjs-outbox';

/** A schema of its own: `drizzle-kit push` compares `public` with the application's tables. */
export const OUTBOX = 'outbox';
const SHOP = `create table customers (name text primary key, orders integer not null);
--> statement-breakpoint
create table orders (id serial primary key, customer text not null, number integer not null);
--> statement-breakpoint
create table coupons (code text primary key, order_id integer not null);
--> statement-breakpoint
create table letters (position serial primary key, message_id uuid not null unique, customer text not null, about text not null);
`;

/**
 * An application has this folder in its repository. `drizzle-kit generate` writes the first file; `drizzle-kit generate --custom
 * --name=outbox` an empty second one, for the SQL of `npx nestjs-outbox migrate print postgres --schema outbox`.
 */
async function writeMigrations(folder: string): Promise<void> {
  const files = { '0000_shop': SHOP, '0001_outbox': outboxSql('postgres', { schema: OUTBOX }).up };
  const entries = Object.keys(files).map((tag, idx) => ({ idx, version: '7', when: 1 + idx, tag, breakpoints: true }));
  await mkdir(join(folder, 'meta'));
  await writeFile(
    join(folder, 'meta', '_journal.json'),
    JSON.stringify({ version: '7', dialect: 'postgresql', entries }),
  );
  for (const [tag, sql] of Object.entries(files)) await writeFile(join(folder, `${tag}.sql`), sql);
}

/** By Drizzle's own migrator: all files in one transaction, each once. */
export async function migrate(url: string): Promise<void> {
  const migrationsFolder = await mkdtemp(join(tmpdir(), 'drizzle-'));
  const db = drizzle(url);
  try {
    await writeMigrations(migrationsFolder);
    await migrateFolder(db, { migrationsFolder });
    await migrateFolder(db, { migrationsFolder }); // as at each deployment: nothing is left to do
  } finally {
    await db.$client.end();
    await rm(migrationsFolder, { recursive: true });
  }
}
