import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DataSource } from 'typeorm';
import { inboxMigrations } from '../../../lib/inbox/index.js';
import { Cli } from '../../cli/support/cli.js';
import { useWarmCli } from '../../cli/support/warm-cli.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnEach } from '../../support/services.js';

jest.setTimeout(600_000);
const ROOT = process.cwd();

/** Two inboxes; the first would make its tables at its start. */
const applicationOf = (type: string): string => `
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxModule } from 'nestjs-outbox/inbox';
export class AppModule {}
Module({
  imports: [
    TypeOrmModule.forRoot({ type: '${type}', url: process.env.DATABASE_URL, retryAttempts: 0 }),
    InboxModule.forRoot({ database: { setup: 'create' } }),
    InboxModule.forRoot({ name: 'reports', database: { prefix: 'reports_' } }),
  ],
})(AppModule);
`;

describeOnEach([], 'migrate --inbox', (kind) => {
  let database: TestDatabase;
  let db: DataSource;
  let cli: Cli;
  const warm = useWarmCli();

  beforeAll(async () => (await Cli.create()).remove(), 600_000); // it builds
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    db = await new DataSource({ ...database.options, migrations: inboxMigrations() as never[] }).initialize();
    await db.showMigrations(); // makes TypeORM's own table: there the command line writes too
    cli = await Cli.create({ OUTBOX_DATABASE_URL: database.url.replace(/^mysql:/, `${kind}:`) }, warm);
  });
  afterEach(async () => {
    await cli?.remove();
    await db?.destroy();
    await database?.drop();
  });
  const migrate = (...args: string[]) => cli.run(['migrate', ...args]);
  const ran = (stdout: unknown) => expect.objectContaining({ code: 0, stderr: '', stdout });

  it('makes the tables, so that TypeORM’s own migrator has nothing left to do, and drops them again', async () => {
    expect(await migrate('status', '--inbox')).toMatchObject({ code: 3, stdout: expect.stringContaining('not there') });
    expect(await migrate('upgrade', '--inbox')).toEqual(ran('done: InboxTables__outbox_1796000000000\n'));
    expect(await migrate('upgrade', '--inbox')).toEqual(ran('Nothing to do.\n'));
    expect(await migrate('status', '--inbox')).toMatchObject({ code: 0 });
    expect(await db.runMigrations()).toEqual([]);
    await db.query('select duplicates from outbox_inbox, outbox_inbox_latest');
    expect(await migrate('status')).toMatchObject({ code: 3 }); // those of an outbox are other ones
    expect(await migrate('downgrade', '--inbox', '--to', '0', '--yes')).toMatchObject({ code: 0, stderr: '' });
    expect(await db.runMigrations()).toHaveLength(1);
  });

  it('makes what is half there', async () => {
    await migrate('upgrade', '--inbox');
    await db.query('drop table outbox_inbox_latest');
    expect(await migrate('upgrade', '--inbox')).toMatchObject({ code: 0, stderr: '' });
    expect(await migrate('status', '--inbox')).toMatchObject({ code: 0 });
  });

  it('prints, and writes down, a migration for each migrator', async () => {
    const { stdout } = await migrate('print', kind, '--inbox', '--prefix', 'shop_');
    expect(stdout).toMatch(
      /^create table if not exists .shop_inbox. \([^]*create table if not exists .shop_inbox_latest./,
    );
    expect((await migrate('print', kind, '--inbox', '--way', 'down')).stdout).toMatch(
      /^drop table .*_latest.*;\n\ndrop table/,
    );
    await mkdir(join(cli.folder, 'migrations'));
    const written = async (...args: string[]): Promise<string> => {
      const { lines } = await cli.json(['migrate', 'create', 'migrations', '--inbox', ...args]);
      return readFile(join(cli.folder, String(lines[0]?.['file'])), 'utf8');
    };
    expect(await written('--prefix', 'shop_')).toContain("export const inbox = inboxMigrations({ prefix: 'shop_' });");
    const knex = await written('--migrator', 'knex');
    expect(knex).toContain('create table if not exists');
    expect(knex).toMatch(/exports.down = [^]*drop table if exists .*inbox/);
    expect(await written('--migrator', 'knex')).toBe(knex); // found again
  });

  it('refuses what says nothing of an inbox', async () => {
    expect((await migrate('upgrade', '--inbox', '--buckets', '8')).stderr).toContain('--buckets goes with an outbox');
    expect((await migrate('upgrade', '--inbox', 'reports')).stderr).toContain('--inbox with a name goes with a module');
  });

  it('takes the place from the application’s own module, which could not start yet and makes nothing itself', async () => {
    await mkdir(join(cli.folder, 'node_modules'));
    for (const [name, target] of [
      ['nestjs-outbox', ROOT],
      ['@nestjs', join(ROOT, 'node_modules', '@nestjs')],
    ] as const)
      await symlink(target, join(cli.folder, 'node_modules', name));
    await writeFile(join(cli.folder, 'app.module.mjs'), applicationOf(database.options.type));
    const own = await Cli.create({ DATABASE_URL: database.url }, warm);
    const ofModule = (...args: string[]) =>
      own.run(['migrate', ...args, '--module', join(cli.folder, 'app.module.mjs')]);
    try {
      expect(await ofModule('upgrade', '--inbox', 'reports')).toEqual(
        ran('done: InboxTables__reports_1796000000000\n'),
      );
      await db.query('select duplicates from reports_inbox');
      await expect(db.query('select duplicates from outbox_inbox')).rejects.toThrow();
      expect(await ofModule('status', '--inbox')).toMatchObject({ code: 3 });
      expect((await ofModule('status', '--inbox', 'other')).stderr).toContain("The application has no inbox 'other'.");
    } finally {
      await own.remove();
    }
  });
});
