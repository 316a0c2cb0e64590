import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { Cli } from '../../cli/support/cli.js';
import { useWarmCli } from '../../cli/support/warm-cli.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnEach, dialectOf } from '../../support/services.js';

jest.setTimeout(600_000);

const ROOT = process.cwd();

/** Each migrator as an application runs it, in a process of its own: `up`, or `down` where it has that. */
const SCRIPTS = {
  'knex.mjs': `
import knex from 'knex';
const { URL: connection, CLIENT } = process.env;
const db = knex({ client: CLIENT, connection, migrations: { directory: 'migrations' } });
await (process.argv[2] === 'up' ? db.migrate.latest() : db.migrate.rollback());
await db.destroy();
`,
  'kysely.mjs': `
import { promises as fs } from 'node:fs';
import path from 'node:path';
import { FileMigrationProvider, Kysely, Migrator, MysqlDialect, PostgresDialect } from 'kysely';
import mysql from 'mysql2';
import pg from 'pg';
const { URL: uri, CLIENT } = process.env;
const dialect = CLIENT === 'pg' ? new PostgresDialect({ pool: new pg.Pool({ connectionString: uri }) }) : new MysqlDialect({ pool: mysql.createPool(uri) });
const db = new Kysely({ dialect });
const migrator = new Migrator({ db, provider: new FileMigrationProvider({ fs, path, migrationFolder: path.resolve('migrations') }) });
const { error } = await (process.argv[2] === 'up' ? migrator.migrateToLatest() : migrator.migrateDown());
await db.destroy();
if (error) throw error;
`,
  'drizzle.mjs': `
const { URL: uri, CLIENT } = process.env;
const kind = CLIENT === 'pg' ? 'node-postgres' : 'mysql2';
const { drizzle } = await import('drizzle-orm/' + kind);
const { migrate } = await import('drizzle-orm/' + kind + '/migrator');
const db = drizzle(uri);
await migrate(db, { migrationsFolder: 'drizzle' });
await (CLIENT === 'pg' ? db.$client.end() : new Promise((done) => db.$client.end(done)));
`,
  'start.mjs': `
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import mysql from 'mysql2';
import { inProcess, OnOutboxEvent, OutboxDispatcher, OutboxModule, OutboxService } from 'nestjs-outbox';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { pgLayer } from 'nestjs-outbox/pg';
import pg from 'pg';
const { URL: uri, CLIENT, ORDERING: ordering } = process.env;
const pool = CLIENT === 'pg' ? new pg.Pool({ connectionString: uri }) : mysql.createPool(uri);
const dataLayer = CLIENT === 'pg' ? pgLayer(pool) : mysql2Layer(pool);
class Heard { hear(payload) { console.log(payload.text); } }
OnOutboxEvent({ type: 'hello' })(Heard.prototype, 'hear', Object.getOwnPropertyDescriptor(Heard.prototype, 'hear'));
class AppModule {}
const outbox = OutboxModule.forRoot({ dataLayer, ordering, relay: 'manual', transports: { default: inProcess() }, database: { setup: 'check' } });
Module({ imports: [outbox], providers: [Heard] })(AppModule);
const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
await app.get(OutboxService).transaction(() => app.get(OutboxService).enqueue({ type: 'hello', key: 'k', payload: { text: 'heard' } }));
await app.get(OutboxDispatcher).runOnce();
await app.close();
process.exit(0);
`,
} as const;

describeOnEach([], 'migrate create, run by the migrator that it is for', (kind) => {
  let database: TestDatabase;
  let cli: Cli;
  const warm = useWarmCli();
  const isPostgres = dialectOf(kind) === 'postgres';

  beforeAll(async () => (await Cli.create()).remove(), 600_000); // it builds
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    cli = await Cli.create({ OUTBOX_DATABASE_URL: database.url }, warm);
    await mkdir(join(cli.folder, 'node_modules'));
    for (const name of ['@nestjs', 'drizzle-orm', 'knex', 'kysely', 'mysql2', 'pg', 'reflect-metadata'])
      await symlink(join(ROOT, 'node_modules', name), join(cli.folder, 'node_modules', name));
    await symlink(ROOT, join(cli.folder, 'node_modules', 'nestjs-outbox'));
    for (const [name, text] of Object.entries(SCRIPTS)) await writeFile(join(cli.folder, name), text);
  });
  afterEach(async () => {
    await cli?.remove();
    await database?.drop();
  });

  const run = async (script: keyof typeof SCRIPTS, way = 'up', ordering = 'key'): Promise<string> => {
    const env = { ...process.env, URL: database.url, CLIENT: isPostgres ? 'pg' : 'mysql2', ORDERING: ordering };
    const { stdout } = await promisify(execFile)(process.execPath, [script, way], { cwd: cli.folder, env });
    return stdout;
  };
  const create = (migrator: string, ...args: string[]) =>
    cli.run(['migrate', 'create', '--migrator', migrator, ...args]);
  const starts = async (ordering?: string): Promise<void> => {
    expect(await cli.run(['migrate', 'status'])).toMatchObject({ code: 0 });
    expect(await run('start.mjs', undefined, ordering)).toBe('heard\n');
  };
  const folder = (name: string): Promise<unknown> => mkdir(join(cli.folder, name), { recursive: true });

  it.each(['knex', 'kysely'] as const)('%s: both ways, and the outbox starts on the tables', async (migrator) => {
    expect(await create(migrator)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('The folder migrations is not there.'),
    });
    await folder('migrations');
    const { code, stdout } = await create(migrator, '--ordering', 'strict', '--partitioned-archive');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^A migrations\/\d{14}_outbox\.[cm]js\n$/)]);
    expect((await create(migrator)).stdout).toMatch(/is there already\n$/);
    await run(`${migrator}.mjs`);
    await starts('strict');
    await run(`${migrator}.mjs`, 'down');
    expect(await cli.run(['migrate', 'status'])).toMatchObject({ code: 3 });
  });

  it('drizzle: fills the file that drizzle-kit made', async () => {
    await folder('drizzle/meta');
    expect(await create('drizzle')).toMatchObject({
      code: 2,
      stderr:
        "nestjs-outbox: drizzle has no migration 'outbox'. Make an empty one: npx drizzle-kit generate --custom --name outbox.\n",
    });
    // What drizzle-kit 0.31 writes.
    const journal = {
      version: '7',
      dialect: isPostgres ? 'postgresql' : 'mysql',
      entries: [{ idx: 0, version: '7', when: 1, tag: '0000_outbox', breakpoints: true }],
    };
    await writeFile(join(cli.folder, 'drizzle/meta/_journal.json'), JSON.stringify(journal));
    await writeFile(
      join(cli.folder, 'drizzle/0000_outbox.sql'),
      '-- Custom SQL migration file, put your code below! --',
    );
    expect((await create('drizzle', '--ordering', 'strict')).stdout).toBe('A drizzle/0000_outbox.sql\n');
    expect((await create('drizzle')).stdout).toBe('= drizzle/0000_outbox.sql is there already\n');
    await run('drizzle.mjs');
    await starts('strict');
  });

  it('prisma: a folder of its own, of another outbox too', async () => {
    await folder('prisma/migrations');
    expect((await create('prisma')).stdout).toMatch(/^A prisma\/migrations\/\d{14}_outbox\/migration\.sql\n$/);
    expect((await create('prisma', '--prefix', 'audit_')).stdout).toMatch(/_audit\/migration\.sql\n$/);
    const [made = ''] = (await readdir(join(cli.folder, 'prisma/migrations'))).filter((name) =>
      name.endsWith('_outbox'),
    );
    const text = readFileSync(join(cli.folder, 'prisma/migrations', made, 'migration.sql'), 'utf8');
    if (!isPostgres) return;
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query(text); // as Prisma's schema engine sends it: one query without parameters
    await client.end();
    await starts();
  });
});
