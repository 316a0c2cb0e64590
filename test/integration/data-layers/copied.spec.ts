// @tier gate
import { Client } from 'pg';
import type { NestApplication } from '../../cli/support/nest-application.js';
import { documents } from '../../readme/documents.js';
import { promised, runCopied } from '../../readme/copied.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { compiledApplication } from '../../support/data-layer-application.js';
import { describeWith } from '../../support/services.js';

const SCHEMA = `generator client {
  provider = "prisma-client"
  output = "../src/generated/prisma"
}
datasource db {
  provider = "postgresql"
}
model Order {
  id Int @id @default(autoincrement())
  total Int
  @@map("orders")
}`;
/** Enqueues in two transactions of a page's module, of which the first is rolled back. */
const TRY = (layer: string): string => `import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { OnOutboxEvent, OutboxService, outboxSql } from 'nestjs-outbox';
import { Client } from 'pg';
import * as page from './${layer}/shop.module.js';

const heard: number[] = [];
@Injectable()
class Ear {
  @OnOutboxEvent({ type: 'said' })
  hear(n: number): void {
    heard.push(n);
  }
}
@Module({ imports: [page.ShopModule], providers: [Ear] })
class Root {}

const database = new Client({ connectionString: process.env['DATABASE_URL'] });
await database.connect();
await database.query(outboxSql('postgres', { schema: 'outbox' }).up);
const app = await NestFactory.createApplicationContext(Root, { logger: ['error'] });
const outbox = app.get(OutboxService);
const published = outbox.events.once('published');
const undone = outbox.transaction(async (tx) => {
  await outbox.enqueue({ type: 'said', payload: 1 }, { tx });
  throw new Error('rolled back');
});
const reason = await undone.catch((error: Error) => error.message);
await outbox.transaction((tx) => outbox.enqueue({ type: 'said', payload: 2 }, { tx }));
await published;
const { rows } = await database.query('select id from outbox.outbox_messages');
await app.close();
await database.end();
console.log(JSON.stringify({ reason, heard, left: rows.length }));
`;

function filesOf(page: string, layer: string): Record<string, string> {
  const blocks = documents().find(({ path }) => path === page)?.blocks ?? [];
  const own = blocks.filter(({ info, file }) => info === layer || (info === '' && file === 'src/main.ts'));
  return Object.fromEntries(own.flatMap(({ file, text }) => (file === undefined ? [] : [[file, text]])));
}

describeWith('postgres', 'the listings of a data layer, copied into an application', () => {
  let database: TestDatabase;
  let app: NestApplication | undefined;

  beforeEach(async () => {
    app = undefined;
    database = await createTestDatabase('postgres');
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query('create table orders (id serial primary key, total int not null)');
    await client.end();
  });
  afterEach(async () => {
    app?.remove();
    await database.drop();
  });

  async function compiled(layer: string, files: Record<string, string>): Promise<void> {
    const schema = layer === 'prisma' ? { 'prisma/schema.prisma': SCHEMA } : {};
    app = await compiledApplication({ ...files, ...schema }, database.url);
  }

  it.each(['prisma', 'drizzle'])('README, %s: take an order, and tell of it', async (layer) => {
    await compiled(layer, filesOf('README.md', layer));
    const said = ['order 1: mail sent', 'published its first message'];
    const ran = await runCopied(app!.folder, database.url, said);
    expect(ran).toMatchObject({ answer: expect.stringMatching(/^[\da-f-]{36}$/), stopped: true });
    expect(promised().path).toBe('/orders');
  });

  it.each(['prisma', 'drizzle'])(
    'docs/data-layers.md, %s: the module starts, commits and rolls back',
    async (layer) => {
      await compiled(layer, { ...filesOf('docs/data-layers.md', layer), 'src/try.ts': TRY(layer) });
      const { code, stdout, stderr } = await app!.node(['dist/try.js']);
      expect({ code, stderr, said: JSON.parse(stdout || '0') as unknown }).toEqual({
        code: 0,
        stderr: '',
        said: { reason: 'rolled back', heard: [2], left: 0 },
      });
    },
  );
});
