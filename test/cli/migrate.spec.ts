import { DataSource } from 'typeorm';
import { outboxMigrations } from '../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeOnEach, dialectOf } from '../support/services.js';
import { Cli } from './support/cli.js';
import { NestApplication } from './support/nest-application.js';
import { useWarmCli } from './support/warm-cli.js';

/** Each call is a process that loads Nest. */
jest.setTimeout(600_000);

const INSERT = {
  postgres: `insert into outbox_messages (topic, payload) values ('t', '{}')`,
  mysql: `insert into outbox_ready (topic, payload) values ('t', '{}')`,
};

describeOnEach([], 'migrate', (kind) => {
  let database: TestDatabase;
  let db: DataSource;
  let cli: Cli;
  const warm = useWarmCli();

  // The first one builds.
  beforeAll(async () => (await Cli.create()).remove(), 600_000);
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    db = await new DataSource({ ...database.options, migrations: outboxMigrations() }).initialize();
    await db.showMigrations(); // makes TypeORM's own table: there the command line writes too
    cli = await Cli.create({ OUTBOX_DATABASE_URL: database.url.replace(/^mysql:/, `${kind}:`) }, warm);
  });
  afterEach(async () => {
    await cli?.remove();
    await db?.destroy();
    await database?.drop();
  });

  const migrate = (...args: string[]) => cli.run(['migrate', ...args]);
  const version = async (): Promise<string | undefined> => {
    const rows = (await db.query(`select value from outbox_meta where name = 'version'`)) as { value: string }[];
    return rows[0]?.value;
  };

  it('makes the tables, once, and TypeORM’s own migrator has nothing left to do', async () => {
    expect(await migrate('status')).toMatchObject({
      code: 3,
      stdout: 'The tables are not there; this release has version 1.\n',
    });
    expect(await migrate('upgrade', '--buckets', '16')).toMatchObject({ code: 0, stderr: '' });
    expect(await migrate('status')).toMatchObject({ code: 0 });
    const plan = await cli.json(['migrate', 'upgrade', '--dry-run']);
    expect(plan).toMatchObject({ code: 0, lines: [{ dryRun: true, version: 1, latest: 1 }] });
    expect(await migrate('upgrade')).toMatchObject({ code: 0, stdout: 'Nothing to do.\n' });
    expect(await db.query(`select value from outbox_meta where name = 'buckets'`)).toEqual([{ value: '16' }]);
    expect(await db.runMigrations()).toEqual([]);
  });

  it('waits for its timeout, and no longer, while others have the table that says the version', async () => {
    await migrate('upgrade');
    const runner = db.createQueryRunner();
    try {
      await runner.startTransaction();
      const isPostgres = dialectOf(kind) === 'postgres';
      await runner.query(
        isPostgres ? 'lock table outbox_meta in access exclusive mode' : 'lock tables outbox_meta write',
      );
      expect(await migrate('status', '--timeout', '3s')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('The database did not answer within 3s.'),
      });
      if (!isPostgres) await runner.query('unlock tables');
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  });

  it('leaves tables of a later release as they are, and says so', async () => {
    await migrate('upgrade');
    await db.query(`update outbox_meta set value = '2' where name = 'version'`);
    expect(await migrate('upgrade')).toMatchObject({
      code: 2,
      stderr: 'nestjs-outbox: The tables have version 2, and this release has 1: use the newer release.\n',
    });
    expect(await migrate('status', '--json')).toMatchObject({
      code: 3,
      stdout: '{"version":2,"latest":1,"isCurrent":false}\n',
    });
    expect(await version()).toBe('2');
  });

  it('does not drop tables while a message waits, nor half of them, and drops them afterwards', async () => {
    await migrate('upgrade');
    await db.query(INSERT[dialectOf(kind)]);
    expect(await migrate('downgrade', '--to', '0')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('give --yes'),
    });
    expect(await migrate('downgrade', '--to', '0', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/messages in them are not published: 1 ready/),
    });
    expect(await version()).toBe('1');
    await db.query('delete from outbox_ready');
    expect(await migrate('downgrade', '--to', '0', '--yes')).toMatchObject({ code: 0, stderr: '' });
    expect(await migrate('status')).toMatchObject({ code: 3 });
    expect(await db.runMigrations()).toHaveLength(1);
  });

  // On MariaDB and MySQL the migration itself waits for 60 s.
  if (kind === 'postgres')
    it('asks again while others have the tables, gives up in time, and goes on when they are free', async () => {
      await migrate('upgrade');
      const holder = db.createQueryRunner();
      await holder.startTransaction();
      await holder.query('select count(*) from outbox_ready');
      expect(await migrate('downgrade', '--to', '0', '--yes', '--wait', '1s')).toEqual({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(/^Other transactions lock the tables.*\n.*For 1 s transactions of others/),
      });
      expect(await version()).toBe('1');
      const trying = cli.inTerminal(['migrate', 'downgrade', '--to', '0', '--yes', '--wait', '10m']);
      await trying.until(/trying again/);
      await holder.commitTransaction();
      await holder.release();
      expect(await trying.code).toBe(0);
    });

  it('three at once: the one that ran a migration says so and writes it down, the others have nothing to do', async () => {
    const three = await Promise.all([1, 2, 3].map(() => cli.json(['migrate', 'upgrade'])));
    expect(three.map(({ code }) => code)).toEqual([0, 0, 0]);
    const done = three.map(({ lines }) => ((lines[0]?.['done'] ?? []) as string[]).length).sort();
    expect(done).toEqual([0, 0, 1]);
    const written: { name: string }[] = await db.query('select name from migrations');
    expect(new Set(written.map(({ name }) => name)).size).toBe(written.length);
    expect(written).toHaveLength(1);
  });

  it('prints what the migration runs', async () => {
    const { code, stdout } = await migrate('print', kind, '--schema', 'messaging');
    expect(code).toBe(0);
    expect(stdout).toContain(
      dialectOf(kind) === 'postgres' ? '"messaging"."outbox_ready"' : '`messaging`.`outbox_ready`',
    );
    expect((await migrate('print', 'oracle')).code).toBe(2);
    const printed = await cli.json(['migrate', 'print', kind, '--schema', 'messaging']);
    expect(printed).toEqual({
      code: 0,
      stderr: '',
      lines: [{ dialect: dialectOf(kind), way: 'up', sql: stdout.trimEnd() }],
    });
  });

  it('writes a file that TypeORM finds by a glob, and no second one', async () => {
    const dataSource = `import { DataSource } from 'typeorm';
export default new DataSource({ type: '${database.options.type}', url: process.env.DATABASE_URL, migrations: ['migrations/*.mjs'] });
`;
    const app = await NestApplication.create(
      { 'migrations/.keep': '', 'data-source.mjs': dataSource },
      { DATABASE_URL: database.url },
    );
    try {
      const create = (...args: string[]) => app.cli.run(['migrate', 'create', ...args]);
      const asked = ['--buckets', '8', '--partitioned-archive'];
      expect((await create('migrations', ...asked)).stdout).toBe('A migrations/1795219200000-outbox.ts\n');
      expect((await create('migrations')).stdout).toContain('is there already');
      expect(await create('nowhere')).toMatchObject({ code: 2 });
      // It has no types: it is JavaScript, too.
      app.write({ 'migrations/1795219200000-outbox.mjs': app.text('migrations/1795219200000-outbox.ts') });
      expect(await app.node(['node_modules/typeorm/cli.js', 'migration:run', '-d', 'data-source.mjs'])).toMatchObject({
        code: 0,
      });
    } finally {
      app.remove();
    }
    expect(await db.query(`select value from outbox_meta where name = 'buckets'`)).toEqual([{ value: '8' }]);
    expect(await migrate('upgrade')).toMatchObject({ code: 0, stdout: 'Nothing to do.\n' });
  });
});
