import { NestApplication, runUntil } from '../../cli/support/nest-application.js';
import { COMMON_JS, ES_MODULES } from '../../cli/support/nest-fixtures.js';
import { useWarmCli } from '../../cli/support/warm-cli.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith } from '../../support/services.js';

jest.setTimeout(600_000);

type Files = Readonly<Record<string, string>>;

const root = (end: string): string => `import { Module } from '@nestjs/common';
import { AppService } from './app.service${end}';

@Module({
  imports: [],
  providers: [AppService],
})
export class AppModule {}
`;
/** Of an application as Nest's CLI makes it: nothing in it knows a database. */
const without = ({ ...files }: Record<string, string>, end: string): Files => {
  for (const name of Object.keys(files)) if (/migrations|data-source/.test(name)) delete files[name];
  return { ...files, 'src/app.module.ts': root(end) };
};
const DRIZZLE = `import { drizzle } from 'drizzle-orm/node-postgres';
import { Pool } from 'pg';

export const db = drizzle(new Pool({ connectionString: process.env.DATABASE_URL }));
`;
const PRISMA = `import { Injectable } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/client';

@Injectable()
export class PrismaService extends PrismaClient {
  constructor() {
    super({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });
  }
}
`;

describeWith('postgres', 'init: an application with Drizzle', () => {
  let app: NestApplication;
  let database: TestDatabase;
  const warm = useWarmCli();
  beforeEach(async () => (database = await createTestDatabase('postgres')));
  afterEach(async () => {
    app?.remove();
    await database?.drop();
  });

  it.each([
    ['CommonJS', without(COMMON_JS, ''), 'src/database/db.ts', './database/db'],
    ['ES modules', without(ES_MODULES, '.js'), 'src/db.ts', './db.js'],
  ])('%s: compiles, makes its tables, publishes the example and stops in order', async (_, files, file, specifier) => {
    app = await NestApplication.create({ ...files, [file]: DRIZZLE }, { DATABASE_URL: database.url }, warm);
    expect(await app.init()).toMatchObject({ code: 0, stderr: '' });
    const lines = app.text('src/app.module.ts').split('\n');
    expect(lines).toContain(`import { db } from '${specifier}';`);
    expect(lines.join('\n')).toContain(
      `imports: [OutboxModule.forRoot({ dataLayer: drizzleLayer(db), transports: { default: inProcess() } })],`,
    );
    expect(await app.init()).toMatchObject({ stdout: 'Nothing to change.\n' });
    expect(await app.compile()).toMatchObject({ code: 0, stdout: '' });
    const upgraded = await app.cli.run(['migrate', 'upgrade', '--module', 'dist/app.module.js']);
    expect(upgraded).toMatchObject({ code: 0, stdout: expect.stringMatching(/^done: /) });
    const log = await runUntil(app.folder, database.url, ['heard of hello', 'successfully started']);
    expect(log).toContain('[Outbox] stopped');
  });

  it.each<[string, Files, string]>([
    ['two of them', { 'src/db.ts': DRIZZLE, 'src/other.ts': DRIZZLE }, '{ dataLayer: drizzleLayer(db), transports: '],
    ['one that is made by a provider', { 'src/db.ts': DRIZZLE.replace('export const', 'const') }, 'drizzleLayer(db)'],
    ['Prisma', { 'src/prisma.service.ts': PRISMA }, 'dataLayer: prismaLayer(prisma, prisma.pool), transports: '],
  ])('%s: changes nothing, and says what to write by hand', async (_, files, text) => {
    app = await NestApplication.create({ ...without(COMMON_JS, ''), ...files }, {}, warm);
    const before = app.files();
    const { code, stdout, stderr } = await app.init();
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^nestjs-outbox: src\/app\.module\.ts:4: init looks for one export const db = drizzle/);
    expect(stderr).toContain(text);
    expect(stderr).toContain('to main.ts: docs/data-layers.md of the package has the whole text.');
    expect(app.files()).toEqual(before);
  });
});
