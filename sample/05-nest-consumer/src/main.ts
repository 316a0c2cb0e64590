import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { startProcess, type Stop } from './start-process.js';
import { Surroundings } from './surroundings.js';
import { type Invoice, type Order, problemsOf } from './verdict.js';

const PATIENCE = 120_000;
const ORDERS = 20;

/** @returns the exit code: 0 if every order arrived exactly once in the consumer's table */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const { DATABASE_URL = '', RABBITMQ_URL = '' } = process.env;
  const surroundings = await Surroundings.make(DATABASE_URL, RABBITMQ_URL);
  const stops: Stop[] = [];
  try {
    return await Promise.race([run(surroundings, stops), interrupted(interruption)]);
  } finally {
    await Promise.allSettled(stops.map((stop) => stop()));
    await surroundings.remove();
  }
}

async function run(surroundings: Surroundings, stops: Stop[]): Promise<number> {
  const [shop, billing] = await Promise.all([
    startProcess('shop', surroundings.envOf('shop'), stops),
    startProcess('billing', surroundings.envOf('billing'), stops),
  ]);
  console.log(`shop ${shop.ready} (pid ${shop.pid}) takes orders and publishes to ${surroundings.exchange}`);
  console.log(`billing (pid ${billing.pid}) consumes from ${surroundings.queue}`);
  for (let n = 1; n <= ORDERS; n++) {
    await post(`${shop.ready}/orders`, { id: `order-${n}`, total: n * 100 });
    await post(`${shop.ready}/orders/order-${n}/payment`, {});
  }
  const [orders, invoices] = await Promise.all([surroundings.open('shop'), surroundings.open('billing')]);
  try {
    await untilHandled(invoices, 2 * ORDERS);
    // Nobody writes while it is judged.
    await Promise.all(stops.map((stop) => stop()));
    return report(
      await orders.query('select id, total from orders where paid order by total'),
      await invoices.query('select order_id as "orderId", total, paid from invoices order by number'),
    );
  } finally {
    await Promise.all([orders.destroy(), invoices.destroy()]);
  }
}

async function post(url: string, body: object): Promise<void> {
  const { status } = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  if (status !== 202) throw new Error(`POST ${url}: HTTP ${status}`);
}

async function untilHandled(billing: DataSource, messages: number): Promise<void> {
  for (const until = Date.now() + PATIENCE; Date.now() < until; await delay(50)) {
    const [row] = await billing.query<{ count: number }[]>('select count(*)::int as count from outbox_inbox');
    if ((row?.count ?? 0) >= messages) return;
  }
}

function report(orders: readonly Order[], invoices: readonly Invoice[]): number {
  console.log(`${orders.length} orders in the shop's database, ${invoices.length} invoices in that of billing`);
  const problems = problemsOf(orders, invoices);
  if (orders.length !== ORDERS) problems.push(`${orders.length} orders, not ${ORDERS}`);
  console.log(problems.length === 0 ? 'OK: every order arrived exactly once' : `FAILED: ${problems.join('; ')}`);
  return problems.length === 0 ? 0 : 1;
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
