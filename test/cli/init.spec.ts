import { execFileSync } from 'node:child_process';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import { NestApplication, runUntil } from './support/nest-application.js';
import { COMMON_JS, ES_MODULES } from './support/nest-fixtures.js';
import { useWarmCli } from './support/warm-cli.js';

jest.setTimeout(600_000);

let app: NestApplication;
afterEach(() => app.remove());

describeWith('postgres', 'init: an application that exists', () => {
  let database: TestDatabase;
  beforeEach(async () => (database = await createTestDatabase('postgres')));
  afterEach(() => database.drop());

  it.each([
    ['CommonJS', COMMON_JS, undefined],
    ['ES modules', ES_MODULES, 'dist/data-source.js'],
  ])('%s: compiles, migrates, publishes the example and stops in order', async (_, files, dataSource) => {
    app = await NestApplication.create(files, { DATABASE_URL: database.url });
    expect(await app.init()).toMatchObject({ code: 0, stderr: '' });
    expect(await app.compile()).toMatchObject({ code: 0, stdout: '' });
    if (dataSource !== undefined)
      expect(await app.node(['node_modules/typeorm/cli.js', 'migration:run', '-d', dataSource])).toMatchObject({
        code: 0,
      });
    const log = await runUntil(app.folder, database.url, ['heard of hello', 'successfully started']);
    expect(log).toContain('[Outbox] stopped');
  });
});

describe('init: what it shows, and what it refuses', () => {
  const warm = useWarmCli();

  it('refuses files with changes that are not committed, and takes them with --yes', async () => {
    app = await NestApplication.create(COMMON_JS, {}, warm);
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.invalid', ...args], { cwd: app.folder });
    git('init', '-q');
    git('add', 'src');
    git('commit', '-q', '-m', 'first');
    const mine = `${COMMON_JS['src/app.module.ts']}// mine\n`;
    app.write({ 'src/app.module.ts': mine, 'src/app.service.ts': '// mine, and none of its business\n' });
    const before = app.files();
    const refusal = expect.stringContaining('Not committed: src/app.module.ts. ');
    expect(await app.init()).toEqual({ code: 2, stdout: '', stderr: refusal });
    expect(app.files()).toEqual(before);
    expect(await app.init('--yes')).toMatchObject({ code: 0, stderr: '' });
    expect(app.text('src/app.module.ts')).toContain('OutboxModule.forRoot');
    const after = app.files();
    expect(await app.init('--yes')).toEqual({ code: 0, stdout: 'Nothing to change.\n', stderr: '' });
    expect(app.files()).toEqual(after);
  });

  it('says what it would do with --dry-run, and does not', async () => {
    app = await NestApplication.create(COMMON_JS, {}, warm);
    const before = app.files();
    const { stdout } = await app.init('--dry-run');
    expect(stdout).toContain(`M src/main.ts
  +   const app = await NestFactory.create(AppModule, { forceCloseConnections: true });
  +   app.enableShutdownHooks();
A src/outbox-example.ts
  + import { Injectable, Logger, OnApplicationBootstrap } from '@nestjs/common';
`);
    expect(stdout).toContain('\n3 file(s) would be changed.\nThen: build, npx nestjs-outbox migrate ');
    const { stdout: line } = await app.init('--dry-run', '--json');
    expect(JSON.parse(line)).toMatchObject({
      dryRun: true,
      changes: [{ file: 'src/app.module.ts' }, {}, {}],
      install: [],
    });
    expect(app.files()).toEqual(before);
  });

  it.each([
    ['rabbitmq', 'amqplib'],
    ['kafka', 'kafkajs'],
  ])('writes what %s needs, and compiles', async (kind, client) => {
    app = await NestApplication.create(COMMON_JS, {}, warm);
    const { stdout } = await app.init('--transport', kind);
    expect(stdout).toContain(`Then: npm install ${client}`);
    expect(await app.compile()).toMatchObject({ code: 0, stdout: '' });
  });
});
