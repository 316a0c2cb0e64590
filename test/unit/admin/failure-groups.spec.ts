import { checkedFailures, grouped, normalizedError } from '../../../lib/admin/failure-groups.js';
import type { FailureRow } from '../../../lib/store/inspect-store.js';

describe('errors that are alike', () => {
  it.each([
    ["queue 'orders-17' is missing", "queue '…' is missing"],
    ['row 01931d2f-0a5b-7c3d-8e4f-0123456789ab: no', 'row <uuid>: no'],
    ['connect ECONNREFUSED 10.0.0.12:5672', 'connect ECONNREFUSED <n>:<n>'],
    ["it doesn't answer, and can't", "it doesn't answer, and can't"],
    ['at 0x7ffe, digest 9f86d081884c7d65', 'at <hex>, digest <hex>'],
    ['field "total" of `order` is 12.50', 'field "…" of `…` is <n>'],
    ['after 123456789 ms', 'after <n> ms'],
    ['\u001b[31mred', '\\u<n>b[<n>mred'],
    ['', ''],
  ])('%j is %j', (error, text) => {
    expect(normalizedError(error)).toBe(text);
  });

  it('is never long', () => {
    expect(normalizedError('ab '.repeat(500))).toHaveLength(300);
  });
});

describe('groups of failures', () => {
  const row = (fields: Partial<FailureRow>): FailureRow => ({
    transport: 0,
    type: 't',
    topic: 'a',
    error: 'no 1',
    state: 'dead',
    count: 1,
    firstSeen: new Date(5),
    lastSeen: new Date(6),
    exampleId: 'x',
    ...fields,
  });
  const names = new Map([[0, 'main']]);

  it('puts together what is alike, with the first and the last, most first', () => {
    const rows = [
      row({ topic: 'b' }),
      row({
        error: 'no 22',
        state: 'waiting',
        count: 3,
        firstSeen: new Date(1),
        lastSeen: new Date(9),
        exampleId: 'y',
      }),
      row({}),
    ];
    expect(grouped({ rows, looked: 5, cut: true }, names)).toMatchObject({
      groups: [
        {
          transport: 'main',
          topic: 'a',
          error: 'no <n>',
          count: 4,
          dead: 1,
          waiting: 3,
          firstSeen: new Date(1),
          lastSeen: new Date(9),
          exampleId: 'y',
        },
        { topic: 'b', count: 1 },
      ],
      more: 0,
      looked: 5,
      cut: true,
    });
  });

  it('leaves out groups beyond a hundred, and says how many', () => {
    const rows = Array.from({ length: 103 }, (_, n) => row({ topic: `t${'x'.repeat(n)}`, transport: 7 }));
    const { groups, more } = grouped({ rows, looked: 103, cut: false }, names);
    expect([groups.length, more, groups[0]?.transport]).toEqual([100, 3, 'number 7']);
  });

  it.each([
    [undefined, ['dead', 'waiting']],
    ['waiting', ['waiting']],
    [
      ['waiting', 'dead'],
      ['dead', 'waiting'],
    ],
  ])('asked for %j looks at %j', (state, states) => {
    expect(checkedFailures({ state } as never).states).toEqual(states);
  });

  it.each([[{ state: 'ready' }], [{ state: [] }], [{ key: 'k' }], [{ type: '' }], [null]])('refuses %j', (query) => {
    expect(() => checkedFailures(query as never)).toThrow(/^failures: /);
  });
});
