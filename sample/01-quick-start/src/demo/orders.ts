import { readFile } from 'node:fs/promises';
import { MAX_QUANTITY, type NewOrder } from '../shop/orders.service.js';

/** What the shop sells: enough of everything for every honest order. */
export const ARTICLES = [
  { sku: 'TEA-EARL-GREY', price: 790 },
  { sku: 'TEA-SENCHA', price: 940 },
  { sku: 'COFFEE-KENYA', price: 1290 },
  { sku: 'COFFEE-HUILA', price: 1190 },
  { sku: 'CUP-BLUE', price: 650 },
  { sku: 'CUP-WHITE', price: 650 },
  { sku: 'KETTLE-1L', price: 4900 },
  { sku: 'FILTER-100', price: 420 },
];
/** Per expected order. A greedy one asks for more than there will ever be. */
export const STOCK_PER_ORDER = 4;
const GREEDY = MAX_QUANTITY;

export async function ordersOfFile(url: URL): Promise<NewOrder[]> {
  const lines = (await readFile(url, 'utf8')).split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as NewOrder);
}

/** One in ten is refused: too many pieces, an article that does not exist, an order number that was used before. */
export function generatedOrders(count: number): NewOrder[] {
  const random = seeded(20_261_121);
  const pick = (n: number): number => Math.floor(random() * n);
  const orders: NewOrder[] = [];
  for (let n = 1; n <= count; n++) {
    const order: NewOrder = {
      orderId: `G-${n}`,
      customer: `customer-${pick(50)}`,
      sku: ARTICLES[pick(ARTICLES.length)]!.sku,
      quantity: 1 + pick(4),
    };
    const fate = random();
    if (fate < 0.05) order.quantity = GREEDY;
    else if (fate < 0.08) order.sku = 'TEA-EARL-GRAY';
    else if (fate < 0.1 && n > 20) order.orderId = orders[orders.length - 1 - pick(10)]!.orderId;
    orders.push(order);
  }
  return orders;
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
