import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DataSource } from 'typeorm';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import { Consumer, type Outcome } from './consumer.js';

const ID = '01a2197b-71c2-7076-a433-0a3e733edda1';
const INSERT = `insert into outbox_ready (bucket, id, topic, type, payload) values (7, '${ID}', 't', 't', '{}')`;

/** What the command line opens with --module. */
const APP_MODULE = `import { Module } from '@nestjs/common';
import { drizzle } from 'drizzle-orm/node-postgres';
import { inProcess, OutboxModule } from 'nestjs-outbox';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { Pool } from 'pg';

const db = drizzle(new Pool({ connectionString: process.env['DATABASE_URL']! }));

@Module({
  imports: [
    OutboxModule.forRoot({
      dataLayer: drizzleLayer(db),
      transports: { default: inProcess() },
      buckets: 16,
      database: { prefix: 'shop_' },
    }),
  ],
})
export class AppModule {}
`;

describeWith(['postgres', 'mariadb'], 'an application with Drizzle, and no TypeORM', () => {
  jest.setTimeout(600_000);
  let consumer: Consumer;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    consumer = await Consumer.create({
      type: 'module',
      sources: 'drizzle',
      dependencies: {
        '@nestjs/common': '^12.0.0',
        '@nestjs/core': '^12.0.0',
        '@types/node': '^22.0.0',
        '@types/pg': '^8.0.0',
        'drizzle-orm': '^0.45.0',
        mysql2: '^3.0.0',
        pg: '^8.0.0',
        'reflect-metadata': '^0.2.0',
        rxjs: '^7.8.0',
      },
      compilerOptions: { module: 'NodeNext', moduleResolution: 'NodeNext' },
    });
    await writeFile(join(consumer.folder, 'src', 'app.module.ts'), APP_MODULE);
  }, 900_000);
  afterAll(async () => {
    await consumer?.remove();
    await database?.drop();
  });

  it('compiles, with the types of its own transactions, and publishes what it enqueues', async () => {
    expect(await consumer.installed()).not.toContain('typeorm');
    expect(await consumer.compile()).toEqual({ code: 0, stdout: '', stderr: '' });
    const outcome = await consumer.node(['out/main.js'], { DATABASE_URL: database.url });
    expect(outcome).toMatchObject({ code: 0, stderr: '', stdout: '["order.placed","order.cancelled"]\n' });
  });

  /** What a user types behind `npx nestjs-outbox`. */
  const cli = (args: string, environment: NodeJS.ProcessEnv): Promise<Outcome> =>
    consumer.node(['node_modules/nestjs-outbox/dist/esm/cli/main.js', ...args.split(' ')], environment);

  it.each(['postgres', 'mariadb'] as const)('runs every kind of command with a URL of %s', async (kind) => {
    const own = await createTestDatabase(kind);
    const db = await new DataSource(own.options).initialize();
    const env = { OUTBOX_DATABASE_URL: own.url };
    const tables = async (): Promise<string[]> => {
      const rows: { name: string }[] = await db.query(
        `select table_name as name from information_schema.tables where table_schema in ('public', '${new URL(own.url).pathname.slice(1)}')`,
      );
      return rows.map(({ name }) => name);
    };
    try {
      expect(await cli('migrate status', env)).toMatchObject({ code: 3, stderr: '' });
      expect(await cli('migrate upgrade --buckets 16', env)).toMatchObject({ code: 0, stderr: '' });
      expect(await cli('migrate status', env)).toMatchObject({ code: 0, stderr: '' });
      expect(await cli('migrate upgrade', env)).toMatchObject({ code: 0, stdout: 'Nothing to do.\n' });
      expect(await tables()).not.toContain('migrations');
      expect((await cli('list', env)).stderr).toContain('The outbox has no transport yet');
      await db.query(`insert into outbox_transports (id, name) values (0, 'default')`);
      await db.query('insert into outbox_leases (transport, bucket) values (0, 7)');
      await db.query(INSERT);
      expect(JSON.parse((await cli('list --json', env)).stdout)).toMatchObject({ id: ID, state: 'ready' });
      expect(JSON.parse((await cli('status --json', env)).stdout)).toMatchObject({
        transports: { default: { ready: 1 } },
      });
      for (const command of [`show ${ID}`, `explain ${ID}`, 'buckets'])
        expect([command, await cli(command, env)]).toMatchObject([command, { code: 0, stderr: '' }]);
      expect(await cli('requeue --state dead', env)).toMatchObject({ code: 3, stderr: '' });
      expect((await cli('doctor', env)).stdout).toMatch(/no_relay|relay/);
      expect(await cli('migrate downgrade --to 0 --yes', env)).toMatchObject({ code: 1 });
      expect(await cli(`cancel ${ID} --yes`, env)).toMatchObject({ code: 0, stdout: 'Cancelled 1 message.\n' });
      const bench = await cli('bench --messages 20 --json', env);
      expect(JSON.parse(bench.stdout)).toMatchObject({ drain: { messages: 40 } });
      expect(await cli('migrate downgrade --to 0 --yes', env)).toMatchObject({ code: 0, stderr: '' });
      expect(await tables()).toEqual([]);
    } finally {
      await db.destroy();
      await own.drop();
    }
  });

  it('makes, reads and measures the tables that its own module declares', async () => {
    const env = { DATABASE_URL: database.url, OUTBOX_MODULE: 'out/app.module.js' };
    expect(await cli('migrate status --json', env)).toMatchObject({
      stdout: '{"version":null,"latest":1,"isCurrent":false}\n',
    });
    expect(await cli('migrate upgrade', env)).toEqual({
      code: 0,
      stdout: 'done: OutboxTables__shop_1795219200000\n',
      stderr: '',
    });
    expect(await cli('migrate upgrade', env)).toMatchObject({ code: 0, stdout: 'Nothing to do.\n' });
    expect(await cli('migrate print postgres', env)).toMatchObject({ code: 0, stderr: '' });
    expect(await cli('list', env)).toMatchObject({ code: 3 });
    expect(JSON.parse((await cli('bench --messages 20 --json', env)).stdout)).toMatchObject({
      drain: { messages: 40 },
    });
    expect(await cli('migrate downgrade --to 0 --yes', env)).toMatchObject({ code: 0, stderr: '' });
  });
});
