// @tier all
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runUntil } from '../cli/support/nest-application.js';
import { copiedFiles, installLine, promised, runCopied, type ModuleType } from '../readme/copied.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith, describeWithRegistry } from '../support/services.js';
import { npm, packInto } from './consumer.js';

const QUIET = ['--no-audit', '--no-fund', '--prefer-offline'];

describeWith('postgres', 'an application of `nest new`', () => {
  describeWithRegistry('that follows the README', () => {
    jest.setTimeout(1_800_000);
    let folder: string;
    let databases: TestDatabase[];

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'outbox-new-'));
      databases = await Promise.all([1, 2, 3].map(() => createTestDatabase('postgres')));
    });
    afterEach(async () => {
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
      for (const database of databases) await database.drop();
    });

    it.each<[11 | 12, ModuleType]>([
      [11, 'commonjs'],
      [12, 'module'],
    ])(
      'of Nest %d, %s: runs what `init` adds, then the README’s files, and passes its own test',
      async (nest, type) => {
        const cli = ['exec', '--yes', `--package=@nestjs/cli@${nest}`, '--', 'nest'];
        await npm([...cli, 'new', 'shop', '--package-manager', 'npm', '--skip-git', '--strict'], folder);
        const app = join(folder, 'shop');
        const tarball = await packInto(folder);
        await npm([...installLine(nest).map((word) => (word === 'nestjs-outbox' ? tarball : word)), ...QUIET], app);
        const [own, ofTests, ofInit] = databases as [TestDatabase, TestDatabase, TestDatabase];

        const module = join(app, 'src', 'app.module.ts');
        const typeorm = `TypeOrmModule.forRoot({ type: 'postgres', url: process.env.DATABASE_URL, migrationsRun: true })`;
        const text = (await readFile(module, 'utf8')).replace('imports: []', `imports: [${typeorm}]`);
        await writeFile(module, `import { TypeOrmModule } from '@nestjs/typeorm';\n${text}`);
        await npm(['exec', '--', 'nestjs-outbox', 'init'], app);
        await npm(['run', 'build'], app);
        const log = await runUntil(app, ofInit.url, ['heard of hello', 'successfully started']);
        expect(log).toContain('[Outbox] stopped');

        for (const [file, text] of Object.entries(copiedFiles(type))) await writeFile(join(app, file), text);

        await npm(['run', 'build'], app);
        expect(await runCopied(app, own.url)).toMatchObject({ answer: promised().answer, stopped: true });

        const { stdout, stderr } = await npm(['test'], app, { DATABASE_URL: ofTests.url, NO_COLOR: '1' });
        expect(stdout + stderr).toMatch(/shop\.module\.spec\.ts/);
      },
    );
  });
});
