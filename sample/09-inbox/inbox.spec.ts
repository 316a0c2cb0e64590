import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DataSource } from 'typeorm';
import { blocksIn } from '../../test/readme/documents.js';
import { createTestDatabase, type TestDatabase } from '../../test/support/databases.js';
import { RabbitMqObserver } from '../../test/support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';
import { problemsOf } from './src/verdict.js';

describeWith(['postgres', 'rabbitmq'], 'sample 09', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterAll(async () => {
    await database.drop();
  });

  it('has one invoice for each order, although both services died and messages came twice; and leaves nothing', async () => {
    const run = new SampleRun(['09-inbox'], { DATABASE_URL: database.url, RABBITMQ_URL: requiredUrl('rabbitmq') });
    const output = await run.finish(170_000);
    expect(output).toMatch(/the shop died between publish and settle, billing between commit and acknowledgement/);
    const [, deliveries, duplicates] = /(\d+) deliveries, of which (\d+) were duplicates/.exec(output) ?? [];
    expect(Number(deliveries)).toBe(20 + Number(duplicates));
    expect(Number(duplicates)).toBeGreaterThanOrEqual(2);
    expect(output).toMatch(/20 orders, 20 invoices\nOK: every order has exactly one invoice\n+exit 0$/);

    const [, queue = '', id = ''] = /consumes from (outbox-sample-billing-(\w+))/.exec(output) ?? [];
    const server = await new DataSource(database.options).initialize();
    const left = `select datname from pg_database where datname like 'outbox\\_sample\\_%' and datname like '%${id}'`;
    expect(await server.query(left)).toEqual([]);
    await server.destroy();
    const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    await expect(observer.channel.checkQueue(queue)).rejects.toThrow('NOT_FOUND');
    await observer.close();
  });
});

describe('what sample 09 is made of', () => {
  it('has the interceptor as the documents have it', () => {
    const code = readFileSync(join(__dirname, 'src', 'acknowledge.interceptor.ts'), 'utf8');
    const blocks = blocksIn('ts').filter(({ file }) => file === 'src/billing/acknowledge.interceptor.ts');
    expect(blocks.map(({ text }) => text)).toEqual([`// src/billing/acknowledge.interceptor.ts\n${code}`]);
  });
});

describe('the verdict of sample 09', () => {
  const orders = [
    { id: 'a', total: 100 },
    { id: 'b', total: 200 },
  ];
  const good = { orders, invoices: [...orders].reverse(), deliveries: 4, duplicates: 2 };

  it('is good when each order has one invoice, and messages came twice', () => {
    expect(problemsOf(good)).toEqual([]);
  });

  it.each([
    ['lost', { invoices: [{ id: 'a', total: 100 }] }, 'b: 0 invoices'],
    ['twice', { invoices: [...orders, { id: 'b', total: 200 }] }, 'b: 2 invoices'],
    ['changed', { invoices: [orders[0]!, { id: 'b', total: 201 }] }, 'b: an invoice of 201, not of 200'],
    ['invented', { invoices: [...orders, { id: 'c', total: 1 }] }, 'c: an invoice, and no order'],
    ['not counted', { deliveries: 5 }, '5 deliveries of 2 messages, and 2 duplicates'],
    ['not shown', { deliveries: 2, duplicates: 0 }, '0 duplicates, where each of two deaths makes one'],
  ])('names what is wrong: %s', (_, wrong, problem) => {
    expect(problemsOf({ ...good, ...wrong })).toEqual([problem]);
  });
});
