import { execFileSync } from 'node:child_process';
import { listOfMigrations } from './support/nest-fixtures.js';
import { NestApplication } from './support/nest-application.js';
import { useWarmCli } from './support/warm-cli.js';

jest.setTimeout(600_000);

const { files } = listOfMigrations();
const MODULE = files['src/app.module.ts'] as string;

/** @returns the application's files, with a text of its module in the place of another */
const withModule = (from: string, to: string): Record<string, string> => ({
  ...files,
  'src/app.module.ts': MODULE.replace(from, () => to),
});
const [, OPTIONS = ''] = /forRoot\((\{[^]*?\n {4}\})\)/.exec(MODULE) ?? [];
const LIST = OPTIONS.slice(OPTIONS.indexOf('['), OPTIONS.indexOf(']') + 1);

describe('init: what it does not understand', () => {
  let app: NestApplication;
  const warm = useWarmCli();
  const create = (given: Record<string, string>) => NestApplication.create(given, {}, warm);
  // The first one builds.
  beforeAll(async () => (await create({})).remove(), 600_000);
  afterEach(() => app.remove());

  const refused = async (given: Record<string, string>, args: string[], text: string, code = 1): Promise<void> => {
    app = await create(given);
    const before = app.files();
    const ended = await app.init(...args);
    expect({ ...ended, stdout: '' }).toEqual({ code, stdout: '', stderr: expect.stringContaining(text) });
    expect(app.files()).toEqual(before);
  };

  it.each([
    [
      'a syntax that is wrong',
      withModule('export class', 'export klass'),
      'src/app.module.ts:19: the syntax is wrong.',
    ],
    [
      'options that come from elsewhere',
      withModule(OPTIONS, 'JSON.parse(process.env.OPTIONS!)'),
      'src/app.module.ts:8: init cannot follow',
    ],
    ['migrations that are no list', withModule(LIST, 'Object.values({})'), 'migrations is no list'],
    ['a database that holds no outbox', withModule(`'postgres'`, `'better-sqlite3'`), 'cannot hold an outbox'],
    [
      'a spread that may have migrations',
      withModule('migrationsRun: true,', '...JSON.parse(`{}`),'),
      'src/app.module.ts:14: init cannot see whether these options have migrations',
    ],
    ['no DataSource', withModule(`TypeOrmModule.forRoot(${OPTIONS}),`, ''), 'has no TypeOrmModule.forRoot'],
    [
      'a module that is made by a function',
      {
        ...files,
        'src/main.ts': (files['src/main.ts'] as string).replace('create(AppModule)', 'create(make(AppModule))'),
      },
      'cannot follow which module',
    ],
    [
      'an application without a name',
      {
        ...files,
        'src/main.ts': (files['src/main.ts'] as string).replace(
          /const app[^]*3000\);/,
          'await (await NestFactory.create(AppModule)).listen(3000);',
        ),
      },
      'src/main.ts:5: the application has no name here.',
    ],
    ['imports that are no list', withModule('imports: [', 'imports: true ? [] : ['), 'imports is no list'],
    [
      'a name that is something else',
      withModule('@Module', 'const inProcess = 1;\n\n@Module'),
      'the name inProcess stands for something else',
    ],
    ['an example that is there', { ...files, 'src/outbox-example.ts': '' }, 'outbox-example.ts is there already'],
  ] as [string, Record<string, string>, string][])('refuses %s, and changes nothing', (_, given, text) =>
    refused(given, [], text),
  );

  it('refuses a module after the migrations were understood, and changes neither file', async () => {
    const own = {
      ...files,
      'src/options.ts': `export const options = { type: 'postgres' as const, migrations: [] };\n`,
      'src/app.module.ts': `import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { options } from './options';

const imports = [TypeOrmModule.forRoot(options)];

@Module({ imports, providers: [...[]].concat([]) })
export class AppModule {}
`,
    };
    await refused(own, [], 'providers is no list');
  });

  it('refuses an application that a monorepo does not have', () =>
    refused(files, ['--project', 'nobody'], `has no application 'nobody'`, 2));

  it('refuses a folder without an application', () => refused({}, [], 'There is no package.json here.', 2));

  it('refuses files with changes that are not committed, and takes them with --yes', async () => {
    await refusedInGit();
    expect(await app.init('--yes')).toMatchObject({ code: 0, stderr: '' });
    expect(app.text('src/app.module.ts')).toContain('OutboxModule.forRoot');
  });

  const refusedInGit = async (): Promise<void> => {
    app = await create(files);
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.invalid', ...args], { cwd: app.folder });
    git('init', '-q');
    git('add', 'src');
    git('commit', '-q', '-m', 'first');
    app.write({ 'src/app.module.ts': `${MODULE}// mine\n` });
    const before = app.files();
    expect(await app.init()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Not committed: src/app.module.ts.'),
    });
    expect(app.files()).toEqual(before);
  };

  it('says what it would do with --dry-run, and does not', async () => {
    app = await create(files);
    const before = app.files();
    const { code, stdout } = await app.init('--dry-run');
    expect(code).toBe(0);
    expect(stdout.split('\n')).toEqual(
      expect.arrayContaining([
        'M src/app.module.ts',
        `  + import { outboxMigrations } from 'nestjs-outbox/typeorm';`,
        '  +         ...outboxMigrations(),',
        '  -   providers: [AppService],',
        '  +   providers: [AppService, OutboxExample],',
        'A src/outbox-example.ts',
        'M src/main.ts',
        '  -   const app = await NestFactory.create(AppModule);',
        '  +   const app = await NestFactory.create(AppModule, { forceCloseConnections: true });',
        '  +   app.enableShutdownHooks();',
        '3 file(s) would be changed.',
      ]),
    );
    expect(app.files()).toEqual(before);
  });

  it('keeps every other character of a file', async () => {
    const text = MODULE.replaceAll('\n', '\r\n');
    app = await create({ ...files, 'src/app.module.ts': text });
    await app.init('--no-example');
    const now = app.text('src/app.module.ts');
    expect(now.replaceAll('\r\n', '')).not.toContain('\n');
    const added = now.split('\r\n').filter((line) => !text.split('\r\n').includes(line));
    expect(added).toEqual([
      `import { outboxMigrations } from 'nestjs-outbox/typeorm';`,
      `import { OutboxModule, inProcess } from 'nestjs-outbox';`,
      '        ...outboxMigrations(),',
      '    OutboxModule.forRoot({ transports: { default: inProcess() } }),',
    ]);
  });

  it.each(['rabbitmq', 'kafka'])('writes what %s needs, and compiles', async (kind) => {
    app = await create(files);
    const { stdout } = await app.init('--transport', kind);
    expect(stdout).toContain(`Then: npm install ${kind === 'kafka' ? 'kafkajs' : 'amqplib'}`);
    expect(await app.compile()).toMatchObject({ code: 0, stdout: '' });
  });
});
