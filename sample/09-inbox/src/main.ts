import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { InboxStats } from 'nestjs-outbox/inbox';
import { Service } from './process.js';
import { Surroundings } from './surroundings.js';
import { type Outcome, problemsOf } from './verdict.js';

const PATIENCE = 120_000;
const ORDERS = 20;

/** @returns the exit code: 0 if every order has one invoice, although messages came twice */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const { DATABASE_URL = '', RABBITMQ_URL = '' } = process.env;
  const surroundings = await Surroundings.make(DATABASE_URL, RABBITMQ_URL);
  const services: Service[] = [];
  try {
    return await Promise.race([run(surroundings, services), interrupted(interruption)]);
  } finally {
    await Promise.allSettled(services.map((service) => service.stop()));
    await surroundings.remove();
  }
}

async function run(surroundings: Surroundings, services: Service[]): Promise<number> {
  let deliveries = 0;
  const start = (name: 'shop' | 'billing', DIES: boolean): Service => {
    const env = { ...surroundings.envOf(name), ORDERS: String(ORDERS), DIES: String(DIES) };
    return Service.start(name, env, services).on((news) => (deliveries += 'delivered' in news ? 1 : 0));
  };
  console.log(`billing consumes from ${surroundings.queue}`);
  const victims = [start('billing', true)];
  await victims[0]?.told('ready'); // its queue is bound: what the shop publishes has a place
  victims.push(start('shop', true));
  for (const victim of victims) {
    const end = await victim.ended();
    if (end !== 'SIGKILL') throw new Error(`${victim.name} ended with ${end}`);
  }
  console.log('the shop died between publish and settle, billing between commit and acknowledgement; both start again');
  const billing = start('billing', false);
  await billing.told('ready');
  await start('shop', false).told('placed');
  for (const until = Date.now() + PATIENCE; ; await delay(100)) {
    const isQuiet = (await surroundings.isPublished()) && (await surroundings.isConsumed());
    const [stats] = await billing.told<InboxStats[]>('stats', {});
    const { messages = 0, duplicates = 0 } = stats ?? {};
    if ((isQuiet && deliveries === messages + duplicates) || Date.now() > until)
      return report({ ...(await surroundings.rows()), deliveries, duplicates });
  }
}

function report(outcome: Outcome): number {
  const { orders, invoices, deliveries, duplicates } = outcome;
  console.log(`${deliveries} deliveries, of which ${duplicates} were duplicates`);
  console.log(`${orders.length} orders, ${invoices.length} invoices`);
  const problems = problemsOf(outcome);
  if (orders.length !== ORDERS) problems.push(`${orders.length} orders, not ${ORDERS}`);
  console.log(problems.length === 0 ? 'OK: every order has exactly one invoice' : `FAILED: ${problems.join('; ')}`);
  return problems.length === 0 ? 0 : 1;
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
