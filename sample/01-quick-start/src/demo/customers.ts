import { performance } from 'node:perf_hooks';
import type { NewOrder } from '../shop/orders.service.js';

export interface Answer {
  readonly order: NewOrder;
  readonly status: number;
  readonly reason: string;
  readonly milliseconds: number;
}

/**
 * Sends the orders over HTTP. A customer waits for an answer before sending the next order, so that their order is
 * known; customers do not wait for each other. `pace`: milliseconds between two orders, whoever sends them.
 */
export async function sendOrders(
  url: string,
  orders: readonly NewOrder[],
  pace: number,
  onAnswer: (answer: Answer) => void,
): Promise<void> {
  const start = performance.now();
  const lastOf = new Map<string, Promise<void>>();
  const failures: unknown[] = [];
  for (const [n, order] of orders.entries()) {
    await until(start + n * pace);
    if (failures.length > 0) break;
    const previous = lastOf.get(order.customer) ?? Promise.resolve();
    const answered = previous.then(() => send(url, order)).then(onAnswer);
    lastOf.set(
      order.customer,
      answered.catch((error: unknown) => void failures.push(error)),
    );
  }
  await Promise.all(lastOf.values());
  if (failures.length > 0) throw failures[0];
}

async function send(url: string, order: NewOrder): Promise<Answer> {
  const sent = performance.now();
  const response = await fetch(`${url}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(order),
    signal: AbortSignal.timeout(60_000),
  });
  const body = (await response.json()) as { message?: string };
  return { order, status: response.status, reason: body.message ?? '', milliseconds: performance.now() - sent };
}

async function until(time: number): Promise<void> {
  const wait = time - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
}
