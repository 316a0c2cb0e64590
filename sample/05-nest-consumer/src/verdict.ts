export interface Order {
  readonly id: string;
  readonly total: number;
}
export interface Invoice {
  readonly orderId: string;
  readonly total: number;
  readonly paid: number;
}

/** @returns what is wrong: every order of the shop has one invoice, of its total, paid once; and no other order has one */
export function problemsOf(orders: readonly Order[], invoices: readonly Invoice[]): string[] {
  const known = new Set(orders.map(({ id }) => id));
  const invented = invoices.filter(({ orderId }) => !known.has(orderId)).map(({ orderId }) => orderId);
  return [
    ...orders.flatMap((order) => problemsOfOrder(order, invoices)),
    ...invented.map((orderId) => `${orderId}: an invoice, and no order`),
  ];
}

function problemsOfOrder({ id, total }: Order, invoices: readonly Invoice[]): string[] {
  const ours = invoices.filter(({ orderId }) => orderId === id);
  const [invoice] = ours;
  if (invoice === undefined || ours.length > 1) return [`${id}: ${ours.length} invoices`];
  if (invoice.total !== total) return [`${id}: an invoice of ${invoice.total}, not of ${total}`];
  return invoice.paid === total ? [] : [`${id}: ${invoice.paid} paid, not ${total}`];
}
