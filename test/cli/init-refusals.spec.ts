import { execFileSync } from 'node:child_process';
import { NestApplication } from './support/nest-application.js';
import { listOfMigrations } from './support/nest-fixtures.js';
import { useWarmCli } from './support/warm-cli.js';

jest.setTimeout(600_000);

const { files } = listOfMigrations();
const MODULE = files['src/app.module.ts'] as string;

describe('init: what it shows, and what it refuses', () => {
  let app: NestApplication;
  const warm = useWarmCli();
  const create = (given: Readonly<Record<string, string>>) => NestApplication.create(given, {}, warm);
  // The first one builds.
  beforeAll(async () => (await create({})).remove(), 600_000);
  afterEach(() => app.remove());

  const refused = async (args: readonly string[], code: number, text: string): Promise<void> => {
    const before = app.files();
    expect(await app.init(...args)).toEqual({ code, stdout: '', stderr: expect.stringContaining(text) });
    expect(app.files()).toEqual(before);
  };

  it('refuses a place that it does not understand, and says what to write by hand', async () => {
    app = await create({ ...files, 'src/app.module.ts': MODULE.replace('imports: [', 'imports: true ? [] : [') });
    await refused([], 1, 'src/app.module.ts:7: init cannot see the list of imports.');
  });

  it('refuses an application that a monorepo does not have', async () => {
    app = await create(files);
    await refused(['--project', 'nobody'], 2, 'Give --project');
  });

  it('refuses a folder without an application', async () => {
    app = await create({});
    await refused([], 2, 'main.ts that starts the application is not there.');
  });

  it('refuses files with changes that are not committed, and takes them with --yes', async () => {
    app = await create(files);
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.invalid', ...args], { cwd: app.folder });
    git('init', '-q');
    git('add', 'src');
    git('commit', '-q', '-m', 'first');
    app.write({
      'src/app.module.ts': `${MODULE}// mine\n`,
      'src/app.service.ts': '// mine, and none of its business\n',
    });
    await refused([], 2, 'Not committed: src/app.module.ts. ');
    expect(await app.init('--yes')).toMatchObject({ code: 0, stderr: '' });
    expect(app.text('src/app.module.ts')).toContain('OutboxModule.forRoot');
  });

  it('says what it would do with --dry-run, and does not', async () => {
    app = await create(files);
    const before = app.files();
    const { code, stdout } = await app.init('--dry-run');
    expect(code).toBe(0);
    expect(stdout.split('\n').slice(0, 12)).toEqual([
      'M src/app.module.ts',
      `  + import { outboxMigrations } from 'nestjs-outbox/typeorm';`,
      `  + import { OutboxModule, inProcess } from 'nestjs-outbox';`,
      `  + import { OutboxExample } from './outbox-example';`,
      '  +         ...outboxMigrations(),',
      '  +     OutboxModule.forRoot({ transports: { default: inProcess() } }),',
      '  +   providers: [AppService, OutboxExample],',
      'M src/main.ts',
      '  +   const app = await NestFactory.create(AppModule, { forceCloseConnections: true });',
      '  +   app.enableShutdownHooks();',
      'A src/outbox-example.ts',
      `  + import { DataSource } from 'typeorm';`,
    ]);
    expect(stdout).toContain('\n3 file(s) would be changed.\nThen: build, npx nestjs-outbox migrate ');
    expect(app.files()).toEqual(before);
    const { stdout: line } = await app.init('--dry-run', '--json');
    expect(JSON.parse(line)).toMatchObject({
      dryRun: true,
      changes: [{ file: 'src/app.module.ts' }, {}, {}],
      install: [],
    });
  });

  it.each([
    ['rabbitmq', 'amqplib'],
    ['kafka', 'kafkajs'],
  ])('writes what %s needs, and compiles', async (kind, client) => {
    app = await create(files);
    const { stdout } = await app.init('--transport', kind);
    expect(stdout).toContain(`Then: npm install ${client}`);
    expect(await app.compile()).toMatchObject({ code: 0, stdout: '' });
  });
});
