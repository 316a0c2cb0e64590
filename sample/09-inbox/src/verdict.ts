export interface Row {
  readonly id: string;
  readonly total: number;
}
export interface Outcome {
  readonly orders: readonly Row[];
  /** `id`: of the order. */
  readonly invoices: readonly Row[];
  readonly deliveries: number;
  readonly duplicates: number;
}

/** @returns what is wrong: each order has one invoice, of its total, and no other has one; and messages came twice to show it */
export function problemsOf({ orders, invoices, deliveries, duplicates }: Outcome): string[] {
  const problems = orders.flatMap(({ id, total }) => {
    const ours = invoices.filter((invoice) => invoice.id === id);
    if (ours.length !== 1) return [`${id}: ${ours.length} invoices`];
    return ours[0]?.total === total ? [] : [`${id}: an invoice of ${ours[0]?.total}, not of ${total}`];
  });
  const known = new Set(orders.map(({ id }) => id));
  problems.push(...invoices.filter(({ id }) => !known.has(id)).map(({ id }) => `${id}: an invoice, and no order`));
  if (deliveries !== orders.length + duplicates)
    problems.push(`${deliveries} deliveries of ${orders.length} messages, and ${duplicates} duplicates`);
  if (duplicates < 2) problems.push(`${duplicates} duplicates, where each of two deaths makes one`);
  return problems;
}
