import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith, MYSQL_FAMILY, type DatabaseKind } from '../support/services.js';
import type { Ended } from './support/cli.js';
import { NestApplication } from './support/nest-application.js';
import { CHECK, FIXTURES, listOfMigrations, type Fixture } from './support/nest-fixtures.js';
import { useWarmCli, type WarmCli } from './support/warm-cli.js';

const TIMEOUT = 600_000;
const COMPILER = join(process.cwd(), 'node_modules', 'typescript', 'bin', 'tsc6');

describeWith('postgres', 'init: an application that exists', () => proves('postgres', FIXTURES, useWarmCli()));
for (const kind of MYSQL_FAMILY)
  describeWith(kind, `init: an application on ${kind}`, () =>
    proves(kind, { 'a list of migrations': listOfMigrations(kind) }),
  );

interface Made {
  readonly database: TestDatabase;
  readonly app: NestApplication;
  /** The first run of `init`. */
  readonly first: Ended;
}

/** @param warm without it each `init` is a process of its own */
function proves(kind: DatabaseKind, fixtures: Readonly<Record<string, Fixture>>, warm?: WarmCli): void {
  const made = new Map<string, Made>();
  let compiled: Ended;

  beforeAll(async () => {
    const projects: string[] = [];
    for (const [name, { files, args = [], project = 'tsconfig.json' }] of Object.entries(fixtures)) {
      const database = await createTestDatabase(kind);
      const app = await NestApplication.create(files, { DATABASE_URL: database.url }, warm);
      made.set(name, { database, app, first: await app.init(...args) });
      projects.push(join(app.folder, project));
    }
    // All at once: the compiler reads the declarations of the packages once then, which is most of what it does.
    const [{ app }] = [...made.values()] as [Made];
    compiled = await app.node([COMPILER, '--build', ...projects]);
  }, TIMEOUT);
  afterAll(async () => {
    for (const { app, database } of made.values()) {
      app.remove();
      await database.drop();
    }
  });

  it.each(Object.entries(fixtures))(
    '%s: compiles, migrates, publishes the example and stops in order; a second run changes nothing',
    async (name, { files, changed, untouched = [], args = [], module = 'dist', dataSource }) => {
      const { app, first } = made.get(name) as Made;
      expect(first).toMatchObject({ code: 0, stderr: '' });
      for (const file of changed) expect(app.text(file)).toContain('...outboxMigrations()');
      for (const file of untouched) expect(app.text(file)).toBe(files[file]);

      const after = app.files();
      const again = await app.init(...args);
      expect(again).toMatchObject({ code: 0, stderr: '' });
      expect(again.stdout).toContain('Nothing to change.');
      expect(app.files()).toEqual(after);

      expect(compiled).toMatchObject({ code: 0, stdout: '' });
      linkLibrary(app);
      if (dataSource !== undefined)
        expect(await app.node(['node_modules/typeorm/cli.js', 'migration:run', '-d', dataSource])).toMatchObject({
          code: 0,
        });
      app.write({ 'check.mjs': CHECK });
      expect(await app.node(['check.mjs', module])).toEqual({
        code: 0,
        stdout: 'heard of hello SIGTERM stopped\n',
        stderr: '',
      });
    },
    TIMEOUT,
  );
}

/** What a bundler does with the paths of a monorepo. */
function linkLibrary(app: NestApplication): void {
  if (app.files()['libs/database/src/index.ts'] === undefined) return;
  mkdirSync(join(app.folder, 'node_modules/@app'));
  symlinkSync('../../dist/libs/database/src', join(app.folder, 'node_modules/@app/database'));
}
