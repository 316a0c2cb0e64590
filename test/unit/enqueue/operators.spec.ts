import type { MessageSelection } from '../../../lib/index.js';
import { OutboxService } from '../../../lib/enqueue/outbox.service.js';
import type { InspectStore, PageRow, RowRequest } from '../../../lib/store/inspect-store.js';
import type { NewAction, OperatorStore, Step } from '../../../lib/store/operator-store.js';
import { definition, enqueueOptions, enqueueRuntime, refusal } from '../../support/enqueue.js';

const V7 = '01931d2f-0a5b-7c3d-8e4f-0123456789ab';
const V4 = '01931D2F-0A5B-4C3D-8E4F-0123456789AB';

const ROW = { rowId: '1', id: V7, transport: 0, bucket: 3, seq: '1' } as PageRow;

/** @param changed ids of the rows that the store changes */
function setup(changed: string[] = []) {
  const filters: unknown[] = [];
  const begun: NewAction[] = [];
  const released: Step[] = [];
  let nudges = 0;
  const inspect: Partial<InspectStore> = {
    bounds: async () => ({ from: '1', upTo: '1', at: 'now', now: new Date() }),
    find: async ({ state, parked, ids, transport, key, topic, type }: RowRequest) => {
      if (state === 'ready') return { rows: [], next: null };
      filters.push(JSON.parse(JSON.stringify({ ids, transport, key, topic, type, states: parked?.states })));
      return { rows: changed.length > 0 ? [ROW] : [], next: null };
    },
    byIds: async () => ({ rows: [], isComplete: true }),
  };
  const operators: Partial<OperatorStore> = {
    begin: async (action) => String(begun.push(action)),
    step: async () => ({ done: changed.length, skipped: 0, ids: changed }),
    act: async (action, step) => {
      released.push(step);
      return { audit: String(begun.push(action)), done: 1 };
    },
  };
  const transportsThere = { transports: async () => new Map(Object.entries({ main: 0, audit: 1, former: 2 })) };
  const transports = new Map([
    ['main', definition()],
    ['audit', definition()],
  ]);
  const parts = {
    options: enqueueOptions({ transports }),
    store: { operators, inspect, setup: transportsThere } as never,
    workAppeared: () => void nudges++,
  };
  return {
    outbox: new OutboxService(enqueueRuntime({ source: {}, watchTransactions: () => undefined } as never, parts)),
    filters,
    begun,
    released,
    nudges: () => nudges,
  };
}

describe('breakLeases', () => {
  it.each([
    [{}, 'breakLeases: the filter is empty.'],
    [undefined, 'breakLeases: a selection must be an object, not undefined.'],
    [{ bucket: 1 }, "breakLeases: unknown field 'bucket'."],
    [{ buckets: 1 }, 'breakLeases: buckets must be an array of whole numbers.'],
    [{ buckets: [0.5] }, 'breakLeases: buckets must be an array of whole numbers.'],
    [{ owner: '' }, 'breakLeases: owner must be the id of an instance.'],
    [{ transport: 'nowhere' }, 'nowhere'],
  ])('refuses %j', async (selection, text) => {
    const { outbox } = setup();
    const { message } = await refusal(() => outbox.breakLeases(selection as never));
    expect(message).toContain(text);
  });
});

describe('requeue, discard and cancel', () => {
  it.each(['requeue', 'discard', 'cancel'] as const)(
    '%s translates its filter, and says who acts',
    async (operation) => {
      const { outbox, filters, begun } = setup();
      const selection = { ids: [V7, V4], transport: 'audit', key: 'k', topic: 't', type: 'x' };
      await outbox[operation](selection, { by: 'ann' });
      const texts = { key: 'k', topic: 't', type: 'x' };
      expect(filters).toEqual([
        { ...texts, ids: [V7, V4.toLowerCase()], transport: 1, states: expect.arrayContaining(['dead']) },
      ]);
      expect(begun).toEqual([{ action: operation, actor: 'ann', filter: expect.stringContaining(V7) }]);
    },
  );

  it.each<[MessageSelection, unknown]>([
    [{ type: 'x' }, ['dead']],
    [{ type: 'x', state: 'blocked' }, ['blocked']],
    [{ state: ['dead', 'waiting', 'blocked'] }, ['waiting', 'blocked', 'dead']],
    [{ ids: [V7] }, ['waiting', 'blocked', 'dead']],
    [{ ids: [V7], state: 'dead' }, ['dead']],
  ])(
    'U1: requeue and discard mean what is dead, unless ids or a state say otherwise: %j',
    async (selection, states) => {
      for (const operation of ['requeue', 'discard'] as const) {
        const { outbox, filters, begun } = setup([V7]);
        expect(await outbox[operation](selection, { dryRun: true })).toEqual({ count: 1 });
        expect(begun).toEqual([]);
        await outbox[operation](selection);
        expect(filters).toMatchObject([{ states }, { states }]);
      }
    },
  );

  it('cancel means all, or what its state says', async () => {
    const { outbox, filters } = setup();
    await outbox.cancel({ type: 'x' });
    await outbox.cancel({ type: 'x', state: ['scheduled', 'ready'] });
    expect(filters).toEqual([
      { type: 'x', states: ['scheduled', 'waiting', 'blocked', 'dead'] },
      { type: 'x', states: ['scheduled'] },
    ]);
  });

  it('takes the name of a transport that is in the tables only', async () => {
    const { outbox, filters } = setup();
    await outbox.discard({ transport: 'former' });
    expect(filters).toMatchObject([{ transport: 2 }]);
  });

  it('tells the relay when something changed', async () => {
    const changed = setup([V7]);
    await changed.outbox.requeue({ type: 'x' });
    expect(changed.nudges()).toBe(1);
    const unchanged = setup();
    await unchanged.outbox.requeue({ type: 'x' });
    expect(unchanged.nudges()).toBe(0);
  });

  it('takes 10,000 ids at most, and no limit beside them', async () => {
    const { outbox } = setup();
    const many = Array.from({ length: 10_001 }, () => V7);
    expect((await refusal(() => outbox.cancel({ ids: many }))).message).toMatch('ids has 10001 ids, more than 10000');
    const both = await refusal(() => outbox.cancel({ ids: [V7] }, { limit: 5 }));
    expect(both.message).toMatch('cancel: limit does not go with ids');
  });

  it.each<[unknown, string, RegExp]>([
    [
      {},
      'INVALID_MESSAGE',
      /requeue: the filter is empty. Give at least one of ids, key, topic, type, transport, state, olderThan/,
    ],
    [{ type: undefined }, 'INVALID_MESSAGE', /the filter is empty/],
    [undefined, 'INVALID_MESSAGE', /a filter must be an object, not undefined/],
    [{ ids: [] }, 'INVALID_MESSAGE', /ids must be an array with at least one id/],
    [{ ids: [V7, 'x'] }, 'INVALID_MESSAGE', /ids\[1\] is not a message id: a UUID has 36 characters/],
    [{ kind: 'x' }, 'INVALID_MESSAGE', /unknown field 'kind'/],
    [{ topc: 'x' }, 'INVALID_MESSAGE', /Did you mean 'topic'\?/],
    [{ key: '' }, 'INVALID_MESSAGE', /key must be a string that is not empty/],
    [{ type: 'a\0' }, 'INVALID_MESSAGE', /^requeue: type contains a NUL character/],
    [{ topic: '\0' }, 'INVALID_MESSAGE', /topic contains a NUL character/],
    [{ key: 'a\0b', type: 'x' }, 'INVALID_MESSAGE', /key contains a NUL character/],
    [{ type: 'x', limit: 5 }, 'INVALID_MESSAGE', /unknown field 'limit'/],
    [{ state: [] }, 'INVALID_MESSAGE', /state must name one of waiting, blocked, dead at least/],
    [{ state: 'ready' }, 'INVALID_MESSAGE', /requeue: state 'ready' is not one of waiting, blocked, dead/],
    [{ state: ['dead', 5] }, 'INVALID_MESSAGE', /state a number is not one of/],
    [{ transport: 'adit' }, 'UNKNOWN_TRANSPORT', /no transport 'adit'. Did you mean 'audit'\?/],
  ])('%# is refused before any SQL', async (selection, code, expected) => {
    const { outbox, filters } = setup();
    const refused = await refusal(() => outbox.requeue(selection as MessageSelection));
    expect(refused.code).toBe(code);
    expect(refused.message).toMatch(expected);
    expect(filters).toEqual([]);
  });
});

describe('release', () => {
  it('names a key, and a transport', async () => {
    const { outbox, released, begun, nudges } = setup();
    await outbox.release('k');
    expect(await outbox.release('k', { transport: 'audit', by: 'ann' })).toEqual({ released: 1, auditId: '2' });
    expect([released, nudges()]).toEqual([
      [
        { do: 'release', key: 'k' },
        { do: 'release', key: 'k', transport: 1 },
      ],
      2,
    ]);
    expect(begun.map(({ action, actor }) => [action, actor])).toEqual([
      ['release', expect.stringContaining('@')],
      ['release', 'ann'],
    ]);
    expect((await refusal(() => outbox.release(''))).message).toMatch(/^release: key must be/);
    const refused = await refusal(() => outbox.release('canary\0'));
    expect([refused.code, refused.message]).toEqual(['INVALID_MESSAGE', 'release: key contains a NUL character.']);
  });
});
