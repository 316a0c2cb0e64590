import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { Cli, type Ended } from '../../cli/support/cli.js';
import { useWarmCli } from '../../cli/support/warm-cli.js';
import { npm } from '../../package/consumer.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { dialectOf, type DatabaseKind } from '../../support/services.js';
import { transpile } from '../../support/transpile.js';

const ROOT = process.cwd();
const PACKAGES = ['@nestjs', 'drizzle-orm', 'knex', 'kysely', 'mysql2', 'pg', 'reflect-metadata', 'typeorm'];
const { version } = JSON.parse(readFileSync('node_modules/@mikro-orm/core/package.json', 'utf8')) as {
  version: string;
};
/** Its migrator is none of the repository's packages. */
const MIKRO_ORM = ['core', 'migrations', 'mysql', 'postgresql'].map((name) => `@mikro-orm/${name}@${version}`);

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
  'mikro-orm.mjs': `
import { Migrator } from '@mikro-orm/migrations';
const { URL: clientUrl, CLIENT } = process.env;
const { MikroORM } = await import('@mikro-orm/' + (CLIENT === 'pg' ? 'postgresql' : 'mysql'));
const discovery = { warnWhenNoEntities: false };
const orm = await MikroORM.init({ clientUrl, entities: [], discovery, extensions: [Migrator], migrations: { path: 'migrations' } });
await (process.argv[2] === 'up' ? orm.getMigrator().up() : orm.getMigrator().down());
await orm.close();
`,
  'typeorm.mjs': `
import { DataSource } from 'typeorm';
const { URL: url, CLIENT } = process.env;
const type = CLIENT === 'pg' ? 'postgres' : 'mysql';
const db = await new DataSource({ type, url, migrations: ['src/migrations/*.js'] }).initialize();
await (process.argv[2] === 'up' ? db.runMigrations() : db.undoLastMigration());
await db.destroy();
`,
  'once.mjs': `
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import mysql from 'mysql2';
import { InboxModule, InboxService } from 'nestjs-outbox/inbox';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { pgLayer } from 'nestjs-outbox/pg';
import pg from 'pg';
const { URL: uri, CLIENT } = process.env;
const dataLayer = CLIENT === 'pg' ? pgLayer(new pg.Pool({ connectionString: uri })) : mysql2Layer(mysql.createPool(uri));
class AppModule {}
Module({ imports: [InboxModule.forRoot({ dataLayer })] })(AppModule);
const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
for (const id of ['a', 'a']) console.log((await app.get(InboxService).once(id, () => undefined)).status);
await app.close();
process.exit(0);
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

/** A folder of an application with a database of its own for each test. Called where its hooks belong. */
export function useMigrators(kind: DatabaseKind) {
  const used = {} as { cli: Cli; database: TestDatabase; mikroOrm: string };
  const warm = useWarmCli();
  const isPostgres = dialectOf(kind) === 'postgres';

  beforeAll(async () => {
    await (await Cli.create()).remove(); // it builds
    used.mikroOrm = await mkdtemp(join(tmpdir(), 'outbox-mikro-orm-'));
    await npm(
      ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', ...MIKRO_ORM],
      used.mikroOrm,
    );
  }, 900_000);
  beforeEach(async () => {
    used.database = await createTestDatabase(kind);
    used.cli = await Cli.create({ OUTBOX_DATABASE_URL: used.database.url }, warm);
    const modules = join(used.cli.folder, 'node_modules');
    await mkdir(modules);
    for (const name of PACKAGES) await symlink(join(ROOT, 'node_modules', name), join(modules, name));
    await symlink(join(used.mikroOrm, 'node_modules', '@mikro-orm'), join(modules, '@mikro-orm'));
    await symlink(ROOT, join(modules, 'nestjs-outbox'));
    await writeFile(join(used.cli.folder, 'package.json'), '{"type":"module"}');
    for (const [name, text] of Object.entries(SCRIPTS)) await writeFile(join(used.cli.folder, name), text);
  });
  afterEach(async () => {
    await used.cli?.remove();
    await used.database?.drop();
  });
  afterAll(() => rm(used.mikroOrm, { recursive: true, force: true }));

  return {
    isPostgres,
    migrate: (...args: string[]): Promise<Ended> => used.cli.run(['migrate', ...args]),
    create: (migrator: string, ...args: string[]): Promise<Ended> =>
      used.cli.run(['migrate', 'create', '--migrator', migrator, ...args]),
    folder: (name: string): Promise<unknown> => mkdir(join(used.cli.folder, name), { recursive: true }),
    path: (name: string): string => join(used.cli.folder, name),
    async run(script: keyof typeof SCRIPTS, way = 'up', ordering = 'key'): Promise<string> {
      const env = { ...process.env, URL: used.database.url, CLIENT: isPostgres ? 'pg' : 'mysql2', ORDERING: ordering };
      const { stdout } = await promisify(execFile)(process.execPath, [script, way], { cwd: used.cli.folder, env });
      return stdout;
    },
    /** As an application does that is built. */
    async compile(file: string): Promise<void> {
      const path = join(used.cli.folder, file);
      await writeFile(path.replace(/ts$/, 'js'), transpile(path));
      await rm(path);
    },
    /** The file that drizzle-kit 0.31 makes. */
    async makeDrizzle(name: string): Promise<void> {
      const dialect = isPostgres ? 'postgresql' : 'mysql';
      const entries = [{ idx: 0, version: '7', when: 1, tag: `0000_${name}`, breakpoints: true }];
      const journal = { version: '7', dialect, entries };
      await writeFile(join(used.cli.folder, 'drizzle/meta/_journal.json'), JSON.stringify(journal));
      const text = '-- Custom SQL migration file, put your code below! --';
      await writeFile(join(used.cli.folder, `drizzle/0000_${name}.sql`), text);
    },
    /** As Prisma's schema engine sends it to PostgreSQL: one query without parameters. */
    async sendPrisma(file: string): Promise<void> {
      const client = new Client({ connectionString: used.database.url });
      await client.connect();
      await client.query(await readFile(join(used.cli.folder, file), 'utf8'));
      await client.end();
    },
  };
}
