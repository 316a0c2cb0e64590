// @tier gate
import type { Answer } from './src/demo/customers.js';
import type { Received } from './src/demo/received.js';
import { type CommittedOrder, isGood, judge, type Verdict } from './src/demo/verdict.js';

const order = (number: number, customer = 'ada'): CommittedOrder => ({
  id: `${customer}-${number}`,
  customer,
  number,
  total: number * 10,
});
const message = ({ id, customer, number, total }: CommittedOrder): Received => ({
  id: `message of ${id}`,
  key: customer,
  type: 'order.placed',
  payload: { orderId: id, customer, number, total },
});
const answer = ({ id }: CommittedOrder, status = 202): Answer => ({
  order: { orderId: id, customer: 'ada', sku: 'X', quantity: 1 },
  status,
  reason: status === 202 ? '' : 'out of stock',
  milliseconds: 1,
});

describe('the verdict of the quick start', () => {
  const [one, two, three, other] = [order(1), order(2), order(3), order(1, 'ben')];
  const all = [one, two, three, other];
  const judged = (received: readonly Received[], answers = all.map((a) => answer(a))): Verdict =>
    judge(all, received, answers);

  it('is good when everything arrived, in order per customer, and repetitions are allowed', () => {
    const verdict = judged([message(other), message(one), message(two), message(one), message(three), message(two)]);
    expect(verdict).toMatchObject({
      committed: 4,
      published: 4,
      duplicated: 2,
      lost: [],
      invented: [],
      outOfOrder: [],
    });
    expect(isGood(verdict)).toBe(true);
  });

  it.each<[string, Received[], Partial<Verdict>]>([
    ['a loss', [message(one), message(two), message(other)], { lost: ['ada-3'] }],
    ['an order that nobody committed', [...all.map(message), message(order(9))], { invented: ['ada-9'] }],
    [
      'a message that tells something else',
      [message(one), message(two), { ...message(three), key: 'ben' }, message(other)],
      { invented: ['ada-3'], lost: ['ada-3'] },
    ],
    ['two messages of one order', [...all.map(message), { ...message(two), id: 'another' }], { invented: ['ada-2'] }],
    ['a later order first', [message(one), message(three), message(two), message(other)], { outOfOrder: ['ada-2'] }],
  ])('finds %s', (_, received, expected) => {
    const verdict = judged(received);
    expect(verdict).toMatchObject(expected);
    expect(isGood(verdict)).toBe(false);
  });

  it.each([
    ['an accepted order that is not there', [...all.map((a) => answer(a)), answer(order(7))]],
    ['a refused order that is there', [answer(one), answer(two), answer(other), answer(three, 409)]],
  ])('finds %s', (_, answers) => {
    const verdict = judged(all.map(message), answers);
    expect(verdict.misanswered).toHaveLength(1);
    expect(isGood(verdict)).toBe(false);
  });
});
