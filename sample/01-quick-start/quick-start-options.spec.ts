import { existsSync, readFileSync } from 'node:fs';
import { createTestDatabase, type TestDatabase } from '../../test/support/databases.js';
import { describeWith, serviceUrl, type Service } from '../../test/support/services.js';
import { until } from '../../test/support/until.js';
import { SampleRun } from '../run-sample.js';

jest.setTimeout(600_000);
/** Milliseconds: what takes longer never comes. */
const NEVER = 240_000;

const BROKERS: readonly Service[] = ['postgres', 'kafka', 'rabbitmq'];
const RUNS: [string, string[]][] = [
  ['Kafka', ['--orders', '400', '--kafka', serviceUrl('kafka') ?? '']],
  ['RabbitMQ', ['--rabbitmq', serviceUrl('rabbitmq') ?? '']],
];
/** What they printed. They run one after the other, beside the other tests: most of the time all wait for a dead relay's leases. */
const printed = new Map<string, Promise<string>>();
beforeAll(() => {
  if (BROKERS.some((service) => serviceUrl(service) === undefined)) return;
  let turn: Promise<unknown> = Promise.resolve();
  for (const [name, args] of RUNS) {
    const run = turn.then(() => runOnce(args));
    printed.set(name, run);
    turn = run.catch(() => undefined);
  }
});
afterAll(() => Promise.allSettled(printed.values()));

async function runOnce(args: readonly string[]): Promise<string> {
  const database = await createTestDatabase('postgres');
  try {
    return await new SampleRun(args, { DATABASE_URL: database.url }).finish(NEVER);
  } finally {
    await database.drop();
  }
}

describeWith('postgres', 'the quick start with arguments', () => {
  let database: TestDatabase;
  let sample: SampleRun | undefined;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterEach(async () => {
    await sample?.stop();
  });
  afterAll(async () => {
    await database.drop();
  });

  it('--serve: 202 and 400, with and without a relay, until SIGTERM', async () => {
    sample = new SampleRun(['--serve'], { DATABASE_URL: database.url, PORT: '0' });
    const [, url, pid, ledger] = await sample.printed(
      /API (\S+) .*relay \(pid (\d+)\); messages go to (\S+)[^]*Ctrl-C/,
      NEVER,
    );
    const place = async (body: object): Promise<number> =>
      (
        await fetch(`${url}/orders`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
      ).status;
    const order = (orderId: string) => ({ orderId, customer: 'ada', sku: 'TEA-SENCHA', quantity: 1 });
    const id = `serve-${process.pid}-${Date.now()}`;
    expect(await place(order(id))).toBe(202);
    expect(await place(order(id))).toBe(409);
    expect(await place({ orderId: id })).toBe(400);
    expect(await place({ ...order(`${id}-x`), sku: 'NOTHING' })).toBe(422);
    await until(() => readFileSync(ledger!, 'utf8').includes(id));
    expect(sample.output).toContain(new URL(database.url).pathname);
    await sample.printed(new RegExp(`arrived: order.placed ${id},`), NEVER);

    const inUse = new SampleRun(['--serve'], { DATABASE_URL: database.url, PORT: new URL(url!).port });
    expect(await inUse.finish(NEVER)).toMatch(
      /^Port \d+ is in use; another one: PORT=\d+ npm start -- --serve\n\nexit 1$/m,
    );

    process.kill(Number(pid), 'SIGKILL');
    expect(await place(order(`${id}-2`))).toBe(202);
    await sample.printed(/the relay \(pid \d+\) ended with SIGKILL; another one starts/, NEVER);
    await sample.printed(/a new relay \(pid \d+\) is there/, NEVER);
    await sample.printed(new RegExp(`arrived: order.placed ${id}-2,`), NEVER);
    sample.child.kill('SIGTERM');
    expect(await sample.finish(NEVER)).toMatch(/stopped\n+exit 0$/);
    expect(existsSync(ledger!)).toBe(false);
  });

  it.each([
    [['--orders', 'many'], /--orders is many; must be a whole number/],
    [['--kafka', 'nonsense'], /^Kafka at nonsense could not be reached: /m],
    [['--rabbitmq', 'amqp://me:secret@127.0.0.1:9'], /^RabbitMQ at amqp:\/\/me@127.0.0.1:9 could not be reached: /m],
    [['--serve', '--rabbitmq', 'amqp://127.0.0.1:9'], /^RabbitMQ at amqp:\/\/127.0.0.1:9 could not be reached: /m],
  ])('says what is wrong with its arguments: %j', async (args, sentence) => {
    sample = new SampleRun(args, { DATABASE_URL: database.url, PORT: '0' });
    const output = await sample.finish(NEVER);
    expect(output).toMatch(sentence);
    expect(output).toMatch(/exit 1$/);
    expect(output).not.toContain('secret');
  });
});

describeWith(BROKERS, 'the quick start through a broker', () => {
  it.each(RUNS)('%s: read back by a consumer of its own', async (name) => {
    const output = await printed.get(name);
    expect(output).toContain(`, ${name}\n`);
    expect(output).toMatch(/lost +0\n +invented +0\n +out of order +0\n[^]*OK after/);
    expect(output).not.toContain('Internal server error');
    expect(output).toMatch(/exit 0$/);
  });
});
