import { DataSource } from 'typeorm';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DAY, dayName, insertAt } from '../support/partitioned-archive.js';
import { describeOnEach } from '../support/services.js';
import { Cli } from './support/cli.js';
import { useWarmCli } from './support/warm-cli.js';

/** Each call is a process that loads Nest and TypeORM. */
jest.setTimeout(600_000);

describeOnEach([], 'partitions', (kind) => {
  let database: TestDatabase;
  let db: DataSource;
  let cli: Cli;
  const warm = useWarmCli();
  const days = (...numbers: number[]): string[] => numbers.map((day) => dayName(Date.now() + day * DAY));

  beforeAll(async () => (await Cli.create()).remove(), 600_000);
  beforeEach(async () => {
    database = await createTestDatabase(kind);
    db = await new DataSource(database.options).initialize();
    const url = kind === 'mariadb' ? database.url.replace(/^mysql:/, 'mariadb:') : database.url;
    cli = await Cli.create({ OUTBOX_DATABASE_URL: url }, warm);
  });
  afterEach(async () => {
    await cli?.remove();
    await db?.destroy();
    await database?.drop();
  });
  /** As the first process with a transport leaves them. */
  async function tables(...args: string[]): Promise<void> {
    expect(await cli.run(['migrate', 'upgrade', ...args])).toMatchObject({ code: 0, stderr: '' });
    await db.query(`insert into outbox_transports (id, name) values (0, 'default')`);
  }

  it('S4-53: makes, lists and drops them, and says by its exit code what it did', async () => {
    await tables('--partitioned-archive');
    await db.query(insertAt(kind, new Date(Date.now() - 20 * DAY)));
    const bare = await cli.run(['partitions']);
    expect(bare).toMatchObject({ code: 3, stderr: 'No partition covers now: run partitions run.\n' });

    const run = ['partitions', 'run', '--period', 'day', '--lookahead', '1d'];
    expect(await cli.json([...run, '--yes'])).toMatchObject({
      code: 0,
      lines: [{ action: 'partitions', outcome: 'done', dropped: [], moved: 1, notDone: [] }],
    });
    const listed = await cli.run(['partitions', 'status']);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(listed.stdout).toMatch(/^PARTITION +FROM +TO +DROPPED WHEN OLD$/m);
    for (const name of days(-20, 0, 1)) expect(listed.stdout).toContain(name);

    // Nobody said how long messages are kept: nothing goes.
    expect((await cli.json([...run, '--dry-run'])).lines).toEqual([
      { action: 'partitions', dryRun: true, create: [], drop: [] },
    ]);
    const old = [...run, '--retention', '3d'];
    const [plan] = (await cli.json([...old, '--dry-run'])).lines;
    expect(plan?.['drop']).toEqual(expect.arrayContaining(days(-20)));
    expect((await cli.json(['partitions'])).lines[0]?.['partitions'][0]).toMatchObject({ name: days(-20)[0] });
    const dropped = await cli.run([...old, '--yes']);
    expect(dropped).toMatchObject({ code: 0, stderr: '' });
    expect(dropped.stdout).toMatch(new RegExp(`^Made no partition, dropped \\d+ \\(${days(-20)[0]}`));
    expect(await db.query('select id from outbox_archive')).toEqual([]);
  });

  it('makes a plain archive one in partitions', async () => {
    await tables();
    await db.query(insertAt(kind, new Date(Date.now() - DAY)));
    const run = ['partitions', 'run', '--period', 'month', '--yes'];
    const plain = 'The archive is a plain table, which the cleaner cleans.\n';
    expect(await cli.run(run)).toEqual({ code: 3, stdout: '', stderr: plain });
    expect(await cli.run(['partitions'])).toEqual({ code: 3, stdout: plain, stderr: '' });
    const convert = ['partitions', 'convert', '--period', 'month', '--yes'];
    expect(await cli.run(convert)).toMatchObject({ code: 0, stdout: '' });
    expect(await cli.run(convert)).toMatchObject({ code: 3, stderr: 'Skipped: the archive is partitioned already.\n' });
    expect(await cli.json(run)).toMatchObject({ code: 0, lines: [{ moved: 1, notDone: [] }] });
    expect(await db.query('select topic from outbox_archive')).toHaveLength(1);
  });

  it('obeys nothing in the name of a partition, and tells what was done when a step fails', async () => {
    await tables('--partitioned-archive');
    await cli.run(['partitions', 'run', '--period', 'day', '--lookahead', '1d', '--yes']);
    const [today] = days(0);
    const tomorrow = new Date((Math.floor(Date.now() / DAY) + 1) * DAY).toISOString().slice(0, 10);
    await db.query(
      kind === 'postgres'
        ? `create table "outbox_archive_\u001b[31mx" partition of outbox_archive for values from ('2001-01-01') to ('2001-02-01')`
        : `alter table outbox_archive reorganize partition ${today} into (partition \`\u001b[31mx\` values less than ('2001-02-01 00:00:00'), partition ${today} values less than ('${tomorrow} 00:00:00'))`,
    );
    const old = await cli.run([
      'partitions',
      'run',
      '--period',
      'day',
      '--lookahead',
      '1d',
      '--retention',
      '9d',
      '--yes',
    ]);
    expect(old).toMatchObject({ code: 1, stdout: 'Made no partition, dropped no partition.\n' });
    expect(old.stderr).toMatch(/^Not done: drop \\u001b\[31mx: /m);
    if (kind !== 'postgres') return;
    await db.query(`alter table outbox_archive detach partition outbox_archive_default`);
    await db.query(`create table "outbox_archive_\u001b[32my" partition of outbox_archive default`);
    const { code, stderr } = await cli.run(['partitions']);
    expect({ code, stderr: stderr.includes('\u001b') }).toEqual({ code: 3, stderr: false });
  });

  it('S4-51: says what was not done while others have the table, and fails', async () => {
    await tables('--partitioned-archive');
    await cli.run(['partitions', 'run', '--period', 'day', '--yes']);
    await db.query(insertAt(kind, new Date(Date.now() - 5 * DAY)));
    const holder = db.createQueryRunner();
    await holder.startTransaction();
    await holder.query(insertAt(kind, new Date()));
    const args = ['partitions', 'run', '--period', 'day', '--lookahead', '40d', '--lock-timeout', '100ms', '--yes'];
    const refused = await cli.run(args);
    await holder.rollbackTransaction();
    await holder.release();
    // On PostgreSQL only the rows in the catch-all ask for a lock that others hold.
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/^Not done: .* transactions of others had the table, 3 times for 100 ms\./m);
  });
});

describe('partitions without a database', () => {
  it('wrong input is one line, and exit code 2', async () => {
    const cli = await Cli.create({ OUTBOX_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
    for (const [args, words] of [
      [['frob'], /status, run, convert/],
      [['run', '--yes', '--period', 'week'], /hour, day, month/],
      [['run', '--period', 'day'], /there is no terminal to ask/],
      [['run', '--period', 'day', '--retention', 'ever', '--yes'], /duration such as/],
    ] as const) {
      const ended = await cli.run(['partitions', ...args]);
      expect({ args, ...ended }).toMatchObject({ args, code: 2, stdout: '' });
      expect(ended.stderr).toMatch(words);
      expect(ended.stderr.trim().split('\n')).toHaveLength(1);
    }
    await cli.remove();
  });
});
