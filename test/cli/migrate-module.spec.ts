import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DataSource } from 'typeorm';
import { outboxMigrations } from '../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeOnEach, dialectOf } from '../support/services.js';
import { Cli } from './support/cli.js';
import { useWarmCli } from './support/warm-cli.js';

jest.setTimeout(600_000);

const ROOT = process.cwd();

/** What an application's build writes: two outboxes, of which one would make its tables at its start. */
const applicationOf = (type: string): string => `
import { appendFileSync } from 'node:fs';
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
class Hooks { onModuleInit() { console.error('a hook was called'); } }
export class AppModule {}
const transports = { default: { kind: 'own', receipt: 'broker', create() { throw new Error('no broker'); } } };
Module({
  imports: [
    TypeOrmModule.forRoot({ type: '${type}', url: process.env.DATABASE_URL, retryAttempts: 0, migrationsTableName: 'shop_migrations' }),
    OutboxModule.forRoot({ transports, buckets: 16, database: { prefix: 'shop_' } }),
    OutboxModule.forRoot({ name: 'audit', transports, ordering: 'none', database: { prefix: 'audit_', setup: 'create' } }),
  ],
  providers: [Hooks],
})(AppModule);
`;

describeOnEach([], 'migrate with the application’s own module', (kind) => {
  let database: TestDatabase;
  let db: DataSource;
  let cli: Cli;
  const warm = useWarmCli();

  beforeAll(async () => (await Cli.create()).remove(), 600_000); // it builds
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    db = await new DataSource(database.options).initialize();
    cli = await Cli.create({ DATABASE_URL: database.url }, warm);
    await mkdir(join(cli.folder, 'node_modules'));
    for (const [name, target] of [
      ['nestjs-outbox', ROOT],
      ['@nestjs', join(ROOT, 'node_modules', '@nestjs')],
    ] as const)
      await symlink(target, join(cli.folder, 'node_modules', name));
    await writeFile(join(cli.folder, 'app.module.mjs'), applicationOf(database.options.type));
  });
  afterEach(async () => {
    await cli?.remove();
    await db?.destroy();
    await database?.drop();
  });

  const migrate = (...args: string[]) => cli.run(['migrate', ...args, '--module', 'app.module.mjs']);
  const meta = async (prefix: string, name: string): Promise<string | undefined> => {
    const rows = (await db.query(`select value from ${prefix}meta where name = '${name}'`)) as { value: string }[];
    return rows[0]?.value;
  };

  it('makes the tables as the application declares them, before it could start, and its own migrator has nothing left to do', async () => {
    expect(await migrate('status', '--json')).toMatchObject({
      code: 3,
      stdout: '{"version":null,"latest":1,"isCurrent":false}\n',
    });
    expect(await migrate('upgrade')).toMatchObject({ code: 0, stderr: '' });
    expect(await migrate('status')).toMatchObject({ code: 0, stderr: '' });
    // A process of its own ends, whatever of the application it has opened.
    const [code] = await once(cli.begin(['migrate', 'upgrade', '--module', 'app.module.mjs']), 'exit');
    expect(code).toBe(0);
    expect([await meta('shop_', 'buckets'), await meta('shop_', 'version')]).toEqual(['16', '1']);
    await expect(meta('audit_', 'version')).rejects.toThrow(); // the other outbox was left alone
    const own = await new DataSource({
      ...database.options,
      migrationsTableName: 'shop_migrations',
      migrations: outboxMigrations({ prefix: 'shop_', buckets: 16 }),
    }).initialize();
    try {
      expect(await own.runMigrations()).toEqual([]);
    } finally {
      await own.destroy();
    }
    expect(await migrate('upgrade', '--outbox', 'audit')).toMatchObject({ code: 0, stderr: '' });
    expect(await meta('audit_', 'ordering')).toBe('none');
    expect(await cli.run(['list', '--module', 'app.module.mjs'])).toMatchObject({ code: 3 });
  });

  it('refuses what the module says itself, and names the outbox that is not there', async () => {
    expect(await migrate('upgrade', '--buckets', '8')).toMatchObject({
      code: 2,
      stderr: 'nestjs-outbox: --buckets goes with a database: a module has its own.\n',
    });
    expect(await migrate('upgrade', '--outbox', 'nobody')).toMatchObject({
      code: 2,
      stderr:
        "nestjs-outbox: The application has no outbox 'nobody'. The module must be the one that main.ts gives to NestFactory.\n",
    });
  });

  it('prints and writes down migrations with the names of the module', async () => {
    const { code, stdout } = await migrate('print', kind);
    expect(code).toBe(0);
    expect(stdout).toContain(dialectOf(kind) === 'postgres' ? '"shop_ready"' : '`shop_ready`');
    await mkdir(join(cli.folder, 'migrations'));
    expect(await migrate('create', 'migrations')).toMatchObject({ code: 0, stderr: '' });
  });

  it('drops nothing, whatever the DataSource of a config file says', async () => {
    await migrate('upgrade', '--outbox', 'audit');
    const dataSource = { ...database.options, dropSchema: true, synchronize: true, migrationsRun: true };
    await writeFile(join(cli.folder, 'outbox.config.json'), JSON.stringify({ dataSource, prefix: 'audit_' }));
    expect(await cli.run(['migrate', 'status'])).toMatchObject({ code: 0, stderr: '' });
    expect(await cli.run(['migrate', 'upgrade', '--dry-run'])).toMatchObject({ code: 0 });
    expect(await meta('audit_', 'version')).toBe('1');
  });
});
