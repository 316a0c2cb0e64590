import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build, type Plugin } from 'esbuild';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';

const run = promisify(execFile);

/** Its cron class is given, or not; the message goes to a handler. */
const APPLICATION = `
  import 'reflect-metadata';
  import { Module } from '@nestjs/common';
  import { NestFactory } from '@nestjs/core';
  import { CronJob } from 'cron';
  import pg from 'pg';
  import { DataSource } from 'typeorm';
  import { inProcess, OnOutboxEvent, OutboxModule, OutboxService } from './lib/index.js';

  async function main(): Promise<void> {
    const [url, given] = process.argv.slice(2);
    const dataSource = await new DataSource({ type: 'postgres', url, driver: pg }).initialize();
    const every = { cron: '0 3 * * *', ...(given === 'given' && { CronJob }) };
    let handled: () => void;
    const whenHandled = new Promise<void>((resolve) => (handled = resolve));
    class Mailer {
      @OnOutboxEvent({ type: 'bundled' }, { id: 'mail' })
      send(): void {
        handled();
      }
    }
    const options = { dataSource, transports: { default: inProcess() }, logLevel: 'silent', retention: { every }, database: { setup: 'create' } };
    class App {}
    Module({ imports: [OutboxModule.forRoot(options as never)], providers: [Mailer] })(App);
    try {
      const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
      await app.get(OutboxService).enqueueOutsideTransaction({ type: 'bundled', key: null, payload: {} });
      await whenHandled;
      await app.close();
      console.log('handled');
    } catch (error) {
      console.log(String((error as { code?: string }).code), (error as Error).message);
    } finally {
      await dataSource.destroy();
    }
  }
  void main();
`;

/** What Nest, TypeORM and pg look for, and do without where it is not installed. */
const LEFT_OUT: Plugin = {
  name: 'left-out',
  setup(bundler) {
    bundler.onResolve({ filter: /^[^./]/ }, async ({ path, pluginData, ...from }) => {
      if (pluginData === 'asked') return undefined;
      const { errors } = await bundler.resolve(path, { ...from, pluginData: 'asked' });
      return errors.length > 0 ? { path, external: true } : undefined;
    });
  },
};

describeWith('postgres', 'an application that is one file, in a folder without node_modules', () => {
  let database: TestDatabase;
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'));
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    await build({
      stdin: { contents: APPLICATION, resolveDir: process.cwd(), loader: 'ts' },
      bundle: true,
      platform: 'node',
      format: 'cjs',
      outfile: join(folder, 'application.cjs'),
      plugins: [LEFT_OUT],
      logLevel: 'error',
      tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
    });
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await database?.drop();
  });

  const start = async (...args: string[]): Promise<string> => {
    const url = (database.options as { url: string }).url;
    const { stdout } = await run(process.execPath, ['application.cjs', url, ...args], { cwd: folder });
    return stdout;
  };

  it('L13: cleans by a cron expression with the class that it is given, and its handlers are called', async () => {
    expect(await start('given')).toBe('handled\n');
  });

  it('L13: without that class it is told that it must be given', async () => {
    const told = await start();
    expect(told).toMatch(/^MISSING_PEER /);
    expect(told).toContain(`In a bundle give the class: { cron, CronJob }, with CronJob of 'cron'.`);
  });
});
