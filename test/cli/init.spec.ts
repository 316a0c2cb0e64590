import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith, MYSQL_FAMILY, type DatabaseKind } from '../support/services.js';
import { NestApplication } from './support/nest-application.js';
import { CHECK, FIXTURES, listOfMigrations, type Fixture } from './support/nest-fixtures.js';

const TIMEOUT = 600_000;

describeWith('postgres', 'init: an application that exists', () => {
  for (const [name, fixture] of Object.entries(FIXTURES)) proves('postgres', name, fixture);
});
for (const kind of MYSQL_FAMILY)
  describeWith(kind, `init: an application on ${kind}`, () => {
    proves(kind, 'a list of migrations', listOfMigrations(kind));
  });

function proves(kind: DatabaseKind, name: string, fixture: Fixture): void {
  const { files, changed, untouched = [], args = [], module = 'dist', project } = fixture;
  let database: TestDatabase;
  let app: NestApplication;

  beforeAll(async () => {
    database = await createTestDatabase(kind);
    app = await NestApplication.create(files, { DATABASE_URL: database.url });
  }, TIMEOUT);
  afterAll(async () => {
    app?.remove();
    await database?.drop();
  });

  it(
    `${name}: compiles, migrates and publishes the example; a second run changes nothing`,
    async () => {
      expect(await app.init(...args)).toMatchObject({ code: 0, stderr: '' });
      for (const file of changed) expect(app.text(file)).toContain('...outboxMigrations()');
      for (const file of untouched) expect(app.text(file)).toBe(files[file]);

      const after = app.files();
      const again = await app.init(...args);
      expect(again).toMatchObject({ code: 0, stderr: '' });
      expect(again.stdout).toContain('Nothing is to be changed.');
      expect(app.files()).toEqual(after);

      expect(await app.compile(project)).toMatchObject({ code: 0, stdout: '' });
      linkLibrary(app);
      if (fixture.dataSource !== undefined)
        expect(
          await app.node(['node_modules/typeorm/cli.js', 'migration:run', '-d', fixture.dataSource]),
        ).toMatchObject({ code: 0 });
      app.write({ 'check.mjs': CHECK });
      expect(await app.node(['check.mjs', module])).toEqual({ code: 0, stdout: 'heard of 42\n', stderr: '' });
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
