import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import amqp from 'amqplib';
import { DataSource } from 'typeorm';
import { blocksIn } from '../../test/readme/documents.js';
import { createTestDatabase, type TestDatabase } from '../../test/support/databases.js';
import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';
import { problemsOf } from './src/verdict.js';

describeWith(['postgres', 'rabbitmq'], 'sample 05', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterAll(async () => {
    await database.drop();
  });
  const start = (): SampleRun =>
    new SampleRun(['05-nest-consumer'], { DATABASE_URL: database.url, RABBITMQ_URL: requiredUrl('rabbitmq') });
  const databasesOf = async (id: string): Promise<unknown[]> => {
    const server = await new DataSource(database.options).initialize();
    const sql = `select datname from pg_database where datname like 'outbox\\_sample\\_%' and datname like $1`;
    const found: unknown[] = await server.query(sql, [`%${id}`]);
    await server.destroy();
    return found;
  };

  it('V7: a microservice has each order once, whatever failed within and behind its transaction', async () => {
    const output = await start().finish(170_000);
    expect(output).toMatch(/invoice of order-3: the printer is out of paper; rolled back\n/);
    expect(output).toMatch(/invoice of order-3: came again, done\n/);
    expect(output).toMatch(/thanks for order-5: the mail server is away; the payment is committed\n/);
    expect(output).toMatch(/thanks for order-5: came again, done\n/);
    expect(output).toMatch(/20 orders .*, 20 invoices .*\nOK: every order arrived exactly once\n+exit 0$/);
  });

  it('removes its databases, exchange and queue, also when it is interrupted', async () => {
    const run = start();
    const [, exchange = '', id = ''] = await run.printed(/publishes to (outbox-sample-shop-(\w+))\n/, 90_000);
    const [, queue = ''] = await run.printed(/consumes from (\S+)\n/, 90_000);
    const there = async (): Promise<[number, boolean, boolean]> => [
      (await databasesOf(id)).length,
      await succeeds((channel) => channel.checkExchange(exchange)),
      await succeeds((channel) => channel.checkQueue(queue)),
    ];
    const before = await there();
    await run.stop();
    expect(before).toEqual([2, true, true]);
    expect(await there()).toEqual([0, false, false]);
    expect(run.child.exitCode).toBe(1);
  });
});

describe('what sample 05 is made of', () => {
  it.each(['billing/acknowledge.interceptor'])('has %s.ts as the documents have it', (name) => {
    const code = readFileSync(join(__dirname, 'src', `${name}.ts`), 'utf8');
    const blocks = blocksIn('ts').filter(({ file }) => file === `src/${name}.ts`);
    expect(blocks.map(({ text }) => text)).toEqual([`// src/${name}.ts\n${code}`]);
  });
});

describe('the verdict of sample 05', () => {
  const orders = [
    { id: 'a', total: 100 },
    { id: 'b', total: 200 },
  ];
  const invoice = (orderId: string, total: number, paid = total) => ({ orderId, total, paid });

  it('is good when each order has one invoice that is paid', () => {
    expect(problemsOf(orders, [invoice('b', 200), invoice('a', 100)])).toEqual([]);
  });

  it.each([
    ['lost', [invoice('a', 100)], 'b: 0 invoices'],
    ['twice', [invoice('a', 100), invoice('b', 200), invoice('b', 200)], 'b: 2 invoices'],
    ['changed', [invoice('a', 100), invoice('b', 201)], 'b: an invoice of 201, not of 200'],
    ['paid twice', [invoice('a', 100), invoice('b', 200, 400)], 'b: 400 paid, not 200'],
    ['not paid', [invoice('a', 100), invoice('b', 200, 0)], 'b: 0 paid, not 200'],
    ['invented', [invoice('a', 100), invoice('b', 200), invoice('c', 1)], 'c: an invoice, and no order'],
  ])('names what is wrong: %s', (_, invoices, problem) => {
    expect(problemsOf(orders, invoices)).toEqual([problem]);
  });
});

/** A check that fails closes its channel. */
async function succeeds(check: (channel: amqp.Channel) => Promise<unknown>): Promise<boolean> {
  const connection = await amqp.connect(requiredUrl('rabbitmq'));
  const channel = (await connection.createChannel()).on('error', () => {});
  const found = await check(channel).then(
    () => true,
    () => false,
  );
  await connection.close();
  return found;
}
