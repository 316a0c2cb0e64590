import { randomBytes } from 'node:crypto';
import { DataSource } from 'typeorm';
import { describeOnEach } from '../support/services.js';
import { Cli, CTRL_C } from './support/cli.js';
import { Stuck } from './support/stuck.js';

jest.setTimeout(600_000);

describeOnEach([], 'bench', (kind) => {
  let stuck: Stuck;
  let cli: Cli;
  let db: DataSource;
  const login = `outbox_bench_${randomBytes(4).toString('hex')}`;
  beforeAll(async () => {
    stuck = await Stuck.create(kind);
    cli = await Cli.create(stuck.env);
    await stuck.enqueue();
    db = await new DataSource(stuck.database.options).initialize();
  });
  afterAll(async () => {
    for (const sql of kind === 'postgres' ? [`drop owned by ${login}`, `drop role ${login}`] : [`drop user ${login}`])
      await db?.query(sql).catch(() => undefined);
    await db?.destroy();
    await cli?.remove();
    await stuck?.remove();
  });

  const tables = async (): Promise<string[]> => {
    const schema = kind === 'postgres' ? 'current_schema()' : 'database()';
    const rows: { name: string }[] = await db.query(
      `select table_name as name from information_schema.tables where table_schema = ${schema}`,
    );
    return rows.map(({ name }) => name).sort();
  };

  it('measures enqueues and publishing in tables of its own, and leaves everything as it was', async () => {
    const before = await tables();
    expect(before).toContain('outbox_ready');
    const { code, lines, stderr } = await cli.json(['bench', '--messages', '300', '--for', '10m']);
    expect(stderr).toMatch(/^It works in tables of its own, bench_[0-9a-f]{12}_…, and drops them at the end\.\n$/);
    expect(code).toBe(0);
    expect(lines).toMatchObject([
      {
        enqueue: [
          { writers: 1, messages: 300 },
          { writers: 8, messages: 300 },
        ],
        drain: { messages: 600 },
        messages: 300,
        payloadBytes: 200,
        interrupted: false,
      },
    ]);
    const [{ enqueue = [], drain, versions } = {}] = lines;
    for (const { perSecond, seconds } of [...(enqueue as { perSecond: number; seconds: number }[]), drain]) {
      expect(seconds).toBeGreaterThan(0);
      expect(perSecond).toBeGreaterThan(0);
    }
    expect(versions).toMatchObject({
      driver: expect.stringMatching(kind === 'postgres' ? /^pg \d+\./ : /^mysql2 \d+\./),
      server: expect.stringMatching({ postgres: /^PostgreSQL \d/, mariadb: /MariaDB/, mysql: /^8\./ }[kind]),
    });
    expect(await tables()).toEqual(before);
    expect(await stuck.total()).toMatchObject({ ready: 1 });
  });

  it('ends by its time, and at Ctrl-C, and drops its tables then, too', async () => {
    const before = await tables();
    const timed = await cli.json(['bench', '--messages', '1000000', '--for', '300ms']);
    expect(timed).toMatchObject({ code: 0, lines: [{ interrupted: false }] });
    const terminal = cli.inTerminal(['bench', '--messages', '1000000', '--for', '10m']);
    await terminal.until(/enqueue, 1 at once/);
    expect((await tables()).length).toBeGreaterThan(before.length);
    terminal.type(CTRL_C);
    expect(await terminal.code).toBe(130);
    expect(terminal.seen).toMatch('Interrupted: the numbers are of what was done until then.');
    expect(await tables()).toEqual(before);
  });

  it('refuses, in one sentence, where the login may not make tables', async () => {
    const before = await tables();
    const name = new URL(stuck.database.url).pathname.slice(1);
    for (const sql of kind === 'postgres'
      ? [`create role ${login} login`, `grant usage on schema public to ${login}`]
      : [`create user ${login}`, `grant select on ${name}.* to ${login}`])
      await db.query(sql);
    const url = new URL(stuck.env['OUTBOX_DATABASE_URL'] as string);
    url.username = login;
    const env = { OUTBOX_DATABASE_URL: url.href };
    expect(await cli.run(['bench', '--messages', '10'], env)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /\nnestjs-outbox: bench makes tables of its own, and this login may not make tables here\. [^\n]*\n$/,
      ),
    });
    expect(await tables()).toEqual(before);
    for (const args of [
      ['--messages', '0'],
      ['--messages', '2000000'],
      ['--for', '1h'],
      ['--payload-bytes', '999999'],
    ])
      expect(await cli.run(['bench', ...args])).toMatchObject({ code: 2, stdout: '' });
  });
});
