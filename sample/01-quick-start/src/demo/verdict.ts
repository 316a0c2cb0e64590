import type { Answer } from './customers.js';
import type { Received } from './received.js';

/** An order as it stands in the shop's own table at the end. */
export interface CommittedOrder {
  readonly id: string;
  readonly customer: string;
  readonly number: number;
  readonly total: number;
}

export interface Verdict {
  readonly committed: number;
  readonly rolledBack: number;
  readonly published: number;
  /** Further sightings of a message: allowed, at least once is the promise. */
  readonly duplicated: number;
  /** Order ids: committed and never seen. */
  readonly lost: readonly string[];
  /** Seen and not committed, or not as it was committed. */
  readonly invented: readonly string[];
  /** First seen before an earlier order of the same customer. */
  readonly outOfOrder: readonly string[];
  /** What the API answered and what the table says do not agree. */
  readonly misanswered: readonly string[];
}

/** Compares what is committed with what arrived. Knows neither the relay nor the outbox. */
export function judge(
  committed: readonly CommittedOrder[],
  received: readonly Received[],
  answers: readonly Answer[],
): Verdict {
  const orders = new Map(committed.map((order) => [order.id, order]));
  const first = new Map<string, Received>();
  const invented: string[] = [];
  for (const message of received) {
    const order = orders.get(message.payload.orderId);
    if (order === undefined || !tells(message, order)) invented.push(message.payload.orderId);
    else if (!first.has(order.id)) first.set(order.id, message);
    else if (first.get(order.id)!.id !== message.id) invented.push(order.id);
  }
  const accepted = answers.filter(({ status }) => status === 202).map(({ order }) => order.orderId);
  return {
    committed: committed.length,
    rolledBack: answers.length - accepted.length,
    published: first.size,
    duplicated: received.length - first.size - invented.length,
    lost: committed.filter(({ id }) => !first.has(id)).map(({ id }) => id),
    invented,
    outOfOrder: overtaken([...first.values()]),
    misanswered: difference(accepted, [...orders.keys()]),
  };
}

export function isGood({ lost, invented, outOfOrder, misanswered }: Verdict): boolean {
  return [lost, invented, outOfOrder, misanswered].every((orders) => orders.length === 0);
}

function tells({ key, type, payload }: Received, order: CommittedOrder): boolean {
  const same = payload.customer === order.customer && payload.number === order.number && payload.total === order.total;
  return same && key === order.customer && type === 'order.placed';
}

function overtaken(firstSightings: readonly Received[]): string[] {
  const highest = new Map<string, number>();
  return firstSightings.flatMap(({ payload: { orderId, customer, number } }) => {
    const before = highest.get(customer) ?? 0;
    highest.set(customer, Math.max(before, number));
    return number < before ? [orderId] : [];
  });
}

/** What is not the same number of times in both. */
function difference(a: readonly string[], b: readonly string[]): string[] {
  const count = new Map<string, number>();
  for (const one of a) count.set(one, (count.get(one) ?? 0) + 1);
  for (const one of b) count.set(one, (count.get(one) ?? 0) - 1);
  return [...count].filter(([, times]) => times !== 0).map(([one]) => one);
}
