import { existsSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeWith } from '../support/services.js';
import { Cli } from './support/cli.js';
import { Stuck } from './support/stuck.js';

jest.setTimeout(600_000);

const ROOT = process.cwd();

/** What an application's build writes: hooks that leave a mark, a relay, two outboxes. */
const APPLICATION = `
console.log('noise of the application');
const mark = (text) => appendFileSync(process.env.MARKS, text + '\\n');
class Hooks {
  onModuleInit() { mark('init'); }
  onApplicationBootstrap() { mark('bootstrap'); }
  onModuleDestroy() { mark('destroy'); }
  onApplicationShutdown() { mark('shutdown'); }
}
class AppModule {}
const transport = { kind: 'own', receipt: 'broker', create() { mark('transport'); throw new Error('no broker'); } };
Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'postgres', url: process.env.DATABASE_URL, retryAttempts: 0 }),
    OutboxModule.forRoot({ transports: { default: transport } }),
    OutboxModule.forRoot({ name: 'audit', transports: { default: transport }, database: { prefix: 'audit_', setup: 'create' } }),
  ],
  providers: [Hooks],
})(AppModule);
`;
const FILES = {
  'app.module.mjs': `import { appendFileSync } from 'node:fs';
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule } from 'nestjs-outbox';
${APPLICATION}export { AppModule };
export class Other {}
`,
  'app.module.cjs': `const { appendFileSync } = require('node:fs');
const { Module } = require('@nestjs/common');
const { TypeOrmModule } = require('@nestjs/typeorm');
const { OutboxModule } = require('nestjs-outbox');
${APPLICATION}exports.AppModule = AppModule;
`,
  // As a listing of one file has it: entities and providers beside the module.
  'shop.module.mjs': `export { AppModule as ShopModule, Other as Order } from './app.module.mjs';
`,
};

describeWith('postgres', 'the application’s own module', () => {
  let stuck: Stuck;
  let cli: Cli;
  let marks: string;
  let id: string;
  beforeAll(async () => {
    stuck = await Stuck.create('postgres');
    id = await stuck.enqueue({ key: 'k' });
    cli = await Cli.create();
    marks = join(cli.folder, 'marks');
    Object.assign(cli.env, { DATABASE_URL: stuck.database.url, MARKS: marks });
    await mkdir(join(cli.folder, 'node_modules'));
    await symlink(ROOT, join(cli.folder, 'node_modules', 'nestjs-outbox'));
    await symlink(join(ROOT, 'node_modules', '@nestjs'), join(cli.folder, 'node_modules', '@nestjs'));
    for (const [name, content] of Object.entries(FILES)) await writeFile(join(cli.folder, name), content);
    await writeFile(join(cli.folder, 'outbox.config.mjs'), `export default { module: './app.module.mjs' };`);
    expect(await cli.run(['migrate', 'upgrade', '--outbox', 'audit'])).toMatchObject({ code: 0 }); // no other command makes tables
  });
  afterAll(async () => {
    await cli?.remove();
    await stuck?.remove();
  });

  it.each(Object.keys(FILES))('%s: opened, and nothing of it is started', async (file) => {
    const { code, stdout, stderr } = await cli.run(['list', '--module', file, '--json']);
    expect(stderr).toMatch('noise of the application');
    expect(JSON.parse(stdout)).toMatchObject({ id, state: 'ready' });
    expect(code).toBe(0);
    const [status] = (await cli.json(['status', '--module', file])).lines;
    const text = "1 message for 'default', which no live relay publishes.";
    expect(status?.['reasons']).toEqual([{ code: 'no_relay', text, transport: 'default' }]);
    expect(existsSync(marks)).toBe(false);
    expect(await stuck.total()).toMatchObject({ ready: 1 });
  });

  it('changes messages by it, and another of its outboxes', async () => {
    expect(await cli.json(['list', '--outbox', 'audit'])).toMatchObject({ code: 3, lines: [] });
    const none = await cli.run(['list', '--outbox', 'nobody']);
    expect(none.code).toBe(2);
    expect(none.stderr).toMatch(
      "nestjs-outbox: The application has no outbox 'nobody'. The module must be the one that main.ts gives to NestFactory.\n",
    );
    const wrong = await cli.run(['list', '--export', 'Nothing']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch("has no export 'Nothing'. It has: AppModule, Other.\n");
    expect(await cli.json(['cancel', id, '--yes'])).toMatchObject({ code: 0, lines: [{ done: 1 }] });
    expect(await stuck.total()).toMatchObject({ ready: 0 });
  });

  it('a file that throws is told in one line', async () => {
    await writeFile(
      join(cli.folder, 'broken.mjs'),
      `throw new Error('postgres://shop:hunter2-canary@db/shop is away\\nat once');`,
    );
    const { code, stdout, stderr } = await cli.run(['list', '--module', 'broken.mjs']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^nestjs-outbox: [^\n]*is away at once\n$/);
    expect(stderr).not.toMatch('hunter2-canary');
  });
});
