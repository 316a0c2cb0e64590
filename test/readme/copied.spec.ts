import { DataSource } from 'typeorm';
import { NestApplication } from '../cli/support/nest-application.js';
import { COMPILER } from '../cli/support/nest-fixtures.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import { DocumentedModules } from './modules.js';
import { copiedFiles, promised, runCopied, type ModuleType } from './copied.js';
const WITH_TESTS = { ...COMPILER, types: ['node', 'jest'] };

describeWith('postgres', 'the test of the README', () => {
  const bodies: (() => Promise<void>)[] = [];
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    process.env['DATABASE_URL'] = database.url;
    new DocumentedModules(require, (_, body) => bodies.push(body)).load('src/shop.module.spec.ts');
  });
  afterAll(async () => {
    delete process.env['DATABASE_URL'];
    await database.drop();
  });

  it('passes, again and again', async () => {
    expect(bodies).toHaveLength(1);
    for (const body of [...bodies, ...bodies]) await body(); // the database keeps what the first run committed
  });
});

describeWith('postgres', 'the files of the README, copied into an application', () => {
  let database: TestDatabase;
  let app: NestApplication;

  beforeEach(async () => {
    database = await createTestDatabase('postgres');
  });
  afterEach(async () => {
    app.remove();
    await database.drop();
  });

  it.each<ModuleType>(['module', 'commonjs'])(
    'compile, take an order, log what it promises, and leave only the own tables in sight: %s',
    async (type) => {
      app = await NestApplication.create({
        ...copiedFiles(type),
        'package.json': JSON.stringify({ name: 'shop', type }),
        'tsconfig.json': JSON.stringify({ compilerOptions: WITH_TESTS, include: ['src'] }),
      });
      expect(await app.compile()).toEqual({ code: 0, stdout: '', stderr: '' });

      const ran = await runCopied(app.folder, database.url);
      expect(ran).toMatchObject({ answer: promised().answer, stopped: true });

      const dataSource = await new DataSource(database.options).initialize();
      try {
        const tables = `select table_name from information_schema.tables where table_schema = 'public' order by 1`;
        expect(await dataSource.query(tables)).toEqual([{ table_name: 'migrations' }, { table_name: 'orders' }]);
        expect(await dataSource.query('select id from outbox.outbox_messages')).toEqual([]);
      } finally {
        await dataSource.destroy();
      }
    },
  );
});
