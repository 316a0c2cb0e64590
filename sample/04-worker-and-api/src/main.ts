import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import amqp from 'amqplib';
import { DataSource } from 'typeorm';
import { type Started, startProcess } from './start-process.js';

const PATIENCE = 120_000;
const ORDERS = 20;

interface Mail {
  readonly to: string;
  readonly orderId: string;
}

/** @returns the exit code: 0 if every order was thanked for, in order per customer */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const name = `outbox_sample_${randomBytes(4).toString('hex')}`;
  const { MARIADB_URL = '', RABBITMQ_URL = '' } = process.env;
  const url = new URL(MARIADB_URL);
  url.pathname = `/${name}`;
  const server = await new DataSource({ type: 'mariadb', url: MARIADB_URL }).initialize();
  await server.query(`create database ${name}`);
  const env = { MARIADB_URL: url.href, RABBITMQ_URL, MAIL_QUEUE: name, PORT: '0' };
  const processes: Started[] = [];
  try {
    return await Promise.race([run(env, processes), interrupted(interruption)]);
  } finally {
    await Promise.allSettled(processes.map((started) => started.stop()));
    await server.query(`drop database ${name}`);
    await server.destroy();
    const broker = await amqp.connect(RABBITMQ_URL);
    await (await broker.createChannel()).deleteQueue(name);
    await broker.close();
  }
}

async function run(env: NodeJS.ProcessEnv, processes: Started[]): Promise<number> {
  const start = async (name: string): Promise<Started> => {
    const started = await startProcess(name, env);
    processes.push(started);
    return started;
  };
  const api = await start('api');
  console.log(`API ${api.ready} (pid ${api.child.pid}) takes orders; nobody publishes yet`);
  for (let n = 1; n <= ORDERS / 2; n++) await place(api.ready, n);
  const [worker, mailer] = await Promise.all([start('worker'), start('mailer')]);
  console.log(`worker (pid ${worker.child.pid}) publishes, mailer (pid ${mailer.child.pid}) consumes`);
  for (let n = ORDERS / 2 + 1; n <= ORDERS; n++) await place(api.ready, n);
  for (const until = Date.now() + PATIENCE; mailer.messages.length < ORDERS && Date.now() < until;) await delay(20);
  await Promise.all(processes.map((started) => started.stop()));
  return report(mailer.messages.map((message) => (message as { mail: Mail }).mail));
}

async function place(url: string, n: number): Promise<void> {
  const order = { id: `order-${n}`, customer: n % 2 === 0 ? 'ada' : 'ben', total: n * 100 };
  const { status } = await fetch(`${url}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(order),
    signal: AbortSignal.timeout(60_000),
  });
  if (status !== 202) throw new Error(`order ${n}: HTTP ${status}`);
}

function report(mails: readonly Mail[]): number {
  const ordersOf = (customer: string): string =>
    mails
      .filter(({ to }) => to === customer)
      .map(({ orderId }) => orderId.slice(6))
      .join(' ');
  const [ada, ben] = [ordersOf('ada'), ordersOf('ben')];
  console.log(`mails to ada: ${ada}\nmails to ben: ${ben}`);
  const numbers = Array.from({ length: ORDERS }, (_, n) => n + 1);
  const good =
    ada === numbers.filter((n) => n % 2 === 0).join(' ') && ben === numbers.filter((n) => n % 2 === 1).join(' ');
  console.log(good ? `OK: ${mails.length} mails, in order per customer` : 'FAILED');
  return good ? 0 : 1;
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
