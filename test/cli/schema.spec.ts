import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DataSource } from 'typeorm';
import { outboxMigrations } from '../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeOnEach, describeWith } from '../support/services.js';
import { Cli } from './support/cli.js';
import { Stuck } from './support/stuck.js';
import { useWarmCli } from './support/warm-cli.js';

jest.setTimeout(600_000);

const ROOT = process.cwd();

/** @param schema of an application whose connection has it; quoted */
async function makeOutbox(database: TestDatabase, schema: string, transport: string): Promise<void> {
  const db = await new DataSource({
    ...database.options,
    ...(database.kind === 'postgres' ? { schema } : {}),
    migrations: outboxMigrations(),
  } as TestDatabase['options']).initialize();
  try {
    await db.runMigrations();
    const place = database.kind === 'postgres' ? `"${schema}".` : '';
    await db.query(`insert into ${place}outbox_transports (id, name) values (0, '${transport}')`);
  } finally {
    await db.destroy();
  }
}

describeWith('postgres', 'the command line and the schema of the connection', () => {
  let database: TestDatabase;
  let db: DataSource;
  let cli: Cli;
  const warm = useWarmCli();

  beforeAll(async () => (await Cli.create()).remove(), 600_000); // it builds
  beforeEach(async () => {
    database = await createTestDatabase('postgres');
    db = await new DataSource(database.options).initialize();
    await db.query('create schema tenant_a');
    await db.query('create schema "Tenant-1"');
    cli = await Cli.create({ OUTBOX_DATABASE_URL: database.url }, warm);
  });
  afterEach(async () => {
    await cli?.remove();
    await db?.destroy();
    await database?.drop();
  });

  const withSchema = async (schema: string): Promise<void> => {
    const dataSource = { ...database.options, schema };
    await writeFile(join(cli.folder, 'tenant.json'), JSON.stringify({ dataSource }));
    Object.assign(cli.env, { OUTBOX_DATABASE_URL: '', OUTBOX_CONFIG: 'tenant.json' });
  };
  const rows = async (schema: string): Promise<unknown> => [
    await db.query(`select id, name from "${schema}".outbox_transports order by id`),
    await db.query(`select count(*)::int as leases from "${schema}".outbox_leases`),
  ];

  it('reads the tables of that schema alone, and a look writes nothing', async () => {
    await makeOutbox(database, 'public', 'of_public');
    await makeOutbox(database, 'tenant_a', 'of_tenant');
    await withSchema('tenant_a');
    const before = [await rows('public'), await rows('tenant_a')];
    const { lines, stderr } = await cli.json(['status']);
    expect(stderr).toBe('');
    expect(Object.keys(lines[0]?.['transports'] as object)).toEqual(['of_tenant']);
    expect(await cli.run(['list'])).toMatchObject({ code: 3 });
    expect([await rows('public'), await rows('tenant_a')]).toEqual(before);
  });

  it('takes the only outbox of the database where nobody names a schema, and none of two', async () => {
    await db.query('create schema outbox');
    expect(await cli.run(['migrate', 'upgrade', '--schema', 'outbox'])).toMatchObject({ code: 0 });
    // What changes tables does not guess: another application's may be the only ones.
    expect((await cli.json(['migrate', 'status'])).lines).toMatchObject([{ version: null }]);
    await db.query(`insert into outbox.outbox_transports (id, name) values (0, 'of_outbox')`);
    const transports = async (): Promise<string[]> =>
      Object.keys((await cli.json(['status'])).lines[0]?.['transports'] as object);
    expect(await transports()).toEqual(['of_outbox']);
    await makeOutbox(database, 'tenant_a', 'of_tenant');
    expect((await cli.run(['status'])).stderr).toContain(
      'Several schemas have an outbox: outbox, tenant_a. Give --schema.',
    );
    await makeOutbox(database, 'public', 'of_public');
    expect(await transports()).toEqual(['of_public']);
  });

  it('says that the schema has no tables, and which one has some', async () => {
    await makeOutbox(database, 'public', 'of_public');
    await withSchema('tenant_a');
    expect((await cli.json(['migrate', 'status'])).lines).toEqual([{ version: null, latest: 1, isCurrent: false }]);
    const { code, stderr } = await cli.run(['list']);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr:
        'nestjs-outbox: The table "tenant_a"."outbox_meta" is not there. There are such tables with --schema public --prefix outbox_. Or make it with npx nestjs-outbox migrate upgrade.\n',
    });
    expect(await cli.json(['migrate', 'upgrade'])).toMatchObject({ code: 0 });
    expect((await cli.json(['migrate', 'status'])).lines).toMatchObject([{ version: 1 }]);
    expect(await rows('tenant_a')).toEqual([[], [{ leases: 0 }]]);
  });

  it('takes a schema that must be quoted', async () => {
    expect(await cli.run(['migrate', 'upgrade', '--schema', 'Tenant-1'])).toMatchObject({ code: 0, stderr: '' });
    expect(await cli.run(['migrate', 'status', '--schema', 'Tenant-1'])).toMatchObject({ code: 0, stderr: '' });
    // What an application of that schema has left to do.
    await makeOutbox(database, 'Tenant-1', 'of_tenant');
    for (const named of [['--schema', 'Tenant-1'], []]) {
      const { lines, stderr } = await cli.json(['status', ...named]);
      expect([stderr, Object.keys(lines[0]?.['transports'] as object)]).toEqual(['', ['of_tenant']]);
    }
  });
});

const APPLICATION = (type: string): string => `
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
export class AppModule {}
const own = { kind: 'own', receipt: 'broker', create() { throw new Error('no broker'); } };
Module({
  imports: [
    TypeOrmModule.forRoot({ type: '${type}', url: process.env.DATABASE_URL, retryAttempts: 0 }),
    OutboxModule.forRoot({ transports: { default: own, later: own }, defaultTransport: 'later', database: { setup: 'create' } }),
  ],
})(AppModule);
`;

describeOnEach([], 'commands that open an application', (kind) => {
  let stuck: Stuck;
  let database: TestDatabase;
  let db: DataSource;
  let cli: Cli;
  const warm = useWarmCli();

  beforeAll(async () => {
    stuck = await Stuck.create(kind);
    database = stuck.database;
    db = await new DataSource(database.options).initialize();
    cli = await Cli.create({ DATABASE_URL: database.url, OUTBOX_MODULE: 'app.module.mjs' }, warm);
    await mkdir(join(cli.folder, 'node_modules'));
    await symlink(ROOT, join(cli.folder, 'node_modules', 'nestjs-outbox'));
    await symlink(join(ROOT, 'node_modules', '@nestjs'), join(cli.folder, 'node_modules', '@nestjs'));
    await writeFile(join(cli.folder, 'app.module.mjs'), APPLICATION(database.options.type));
  });
  afterAll(async () => {
    await cli?.remove();
    await db?.destroy();
    await stuck?.remove();
  });

  it('make no tables, register no transport, and make no lease row', async () => {
    const { code, stderr } = await cli.run(['list']);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/outbox_meta.*\(SCHEMA_MISSING\)/) });
    await makeOutbox(database, 'public', 'default');
    expect((await cli.json(['status'])).lines).toMatchObject([{ transports: { default: { configured: true } } }]);
    for (const command of ['list', 'buckets', 'dead', 'pauses']) await cli.run([command]);
    await cli.run(['doctor', '--skip-brokers']);
    await cli.run(['requeue', '--state', 'dead', '--dry-run']);
    expect(await db.query('select id, name from outbox_transports')).toHaveLength(1);
    expect(await db.query('select bucket from outbox_leases')).toEqual([]);
  });

  it('correct a message where the default transport is not registered', async () => {
    const message = { type: 'a', topic: 'a', payload: 1 };
    const id = await stuck.during((outbox) => outbox.enqueueOutsideTransaction(message, { delay: '1h' }), {
      relay: false,
    });
    const edited = await cli.run(['edit', id, '--topic', 'other', '--yes']);
    expect(edited).toMatchObject({ code: 0, stderr: '' });
    expect(await db.query('select name from outbox_transports')).toHaveLength(1);
  });
});
