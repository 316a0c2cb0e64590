import { OutboxService } from '../../../lib/enqueue/outbox.service.js';
import type { MessageSelection } from '../../../lib/admin/selection.js';
import type { AdminStore, MessageFilter, OperatorReport } from '../../../lib/store/admin-store.js';
import { definition, enqueueOptions, enqueueRuntime, refusal } from '../../support/enqueue.js';

const V7 = '01931d2f-0a5b-7c3d-8e4f-0123456789ab';
const V4 = '01931D2F-0A5B-4C3D-8E4F-0123456789AB';

function setup(report: Partial<OperatorReport> = {}) {
  const filters: unknown[] = [];
  const counted: unknown[] = [];
  let nudges = 0;
  const operate = async (filter: MessageFilter): Promise<OperatorReport> => {
    filters.push(filter);
    return { done: [], tooLate: [], notFound: [], left: 0, ...report };
  };
  const transportsThere = { transports: async () => new Map(Object.entries({ main: 0, audit: 1, former: 2 })) };
  const admin: Partial<AdminStore> = {
    requeue: operate,
    discard: operate,
    cancel: operate,
    count: async (change, filter) => {
      counted.push(change, filter);
      return 7;
    },
    release: async (filter) => {
      filters.push(filter);
      return { released: 1 };
    },
  };
  const transports = new Map([
    ['main', definition()],
    ['audit', definition()],
  ]);
  const parts = {
    options: enqueueOptions({ transports }),
    store: { admin, setup: transportsThere } as never,
    committed: () => void nudges++,
  };
  return {
    outbox: new OutboxService(enqueueRuntime({ source: {}, watchTransactions: () => undefined } as never, parts)),
    filters,
    counted,
    nudges: () => nudges,
  };
}

describe('breakLeases', () => {
  it.each([
    [{}, 'breakLeases: the selection is empty.'],
    [undefined, 'breakLeases: the selection must be an object.'],
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
  it.each(['requeue', 'discard', 'cancel'] as const)('%s translates its filter', async (operation) => {
    const { outbox, filters } = setup();
    await outbox[operation]({ ids: [V7, V4], transport: 'audit', key: 'k', topic: 't', type: 'x' });
    expect(filters).toEqual([
      { ids: [V7, V4.toLowerCase()], transport: 1, key: 'k', topic: 't', type: 'x', limit: 100_000 },
    ]);
  });

  it.each<[MessageSelection, unknown]>([
    [{ type: 'x' }, ['dead']],
    [{ type: 'x', state: 'blocked' }, ['blocked']],
    [{ state: ['dead', 'waiting', 'blocked'] }, ['dead', 'waiting', 'blocked']],
    [{ ids: [V7] }, undefined],
    [{ ids: [V7], state: 'dead' }, ['dead']],
  ])(
    'U1: requeue and discard mean what is dead, unless ids or a state say otherwise: %j',
    async (selection, states) => {
      for (const operation of ['requeue', 'discard'] as const) {
        const { outbox, filters, counted } = setup();
        await outbox[operation](selection);
        expect((filters[0] as MessageFilter).states).toEqual(states);
        expect(await outbox[operation]({ ...selection, dryRun: true })).toEqual({ count: 7 });
        expect([filters.length, counted]).toEqual([1, [operation, filters[0]]]);
      }
    },
  );

  it('cancel means all, or what its state says', async () => {
    const { outbox, filters } = setup();
    await outbox.cancel({ type: 'x' });
    await outbox.cancel({ type: 'x', state: ['scheduled', 'ready'] });
    expect(filters.map((filter) => (filter as MessageFilter).states)).toEqual([undefined, ['scheduled', 'ready']]);
    const dryRun = await refusal(() => outbox.cancel({ type: 'x', dryRun: true } as MessageSelection));
    expect(dryRun.message).toMatch(/cancel: unknown field 'dryRun'/);
  });

  it('takes the name of a transport that is in the tables only', async () => {
    const { outbox, filters } = setup();
    await outbox.discard({ transport: 'former' });
    expect(filters).toMatchObject([{ transport: 2 }]);
  });

  it('tells the relay when something changed', async () => {
    const changed = setup({ done: [V7] });
    await changed.outbox.requeue({ type: 'x' });
    expect(changed.nudges()).toBe(1);
    const forOne = setup({ tooLate: [V7] }); // of two transports, one of which let go of it
    await forOne.outbox.cancel({ ids: [V7] });
    expect(forOne.nudges()).toBe(1);
    const unchanged = setup();
    await unchanged.outbox.requeue({ type: 'x' });
    expect(unchanged.nudges()).toBe(0);
  });

  it('takes as many ids as there are, for each of the two transports, and a limit', async () => {
    const { outbox, filters } = setup();
    await outbox.cancel({ ids: Array.from({ length: 60_000 }, () => V7) });
    await outbox.cancel({ type: 'x', limit: 5 });
    expect(filters).toMatchObject([{ limit: 120_000 }, { type: 'x', limit: 5 }]);
  });

  it.each<[unknown, string, RegExp]>([
    [
      {},
      'INVALID_MESSAGE',
      /requeue: the filter is empty. Give at least one of ids, transport, key, topic, type, state/,
    ],
    [{ limit: 5 }, 'INVALID_MESSAGE', /the filter is empty/],
    [{ type: undefined }, 'INVALID_MESSAGE', /the filter is empty/],
    [undefined, 'INVALID_MESSAGE', /a filter must be an object, not undefined/],
    [{ ids: [] }, 'INVALID_MESSAGE', /ids must be an array with at least one id/],
    [{ ids: [V7, 'x'] }, 'INVALID_MESSAGE', /ids\[1\] is no UUID/],
    [{ kind: 'x' }, 'INVALID_MESSAGE', /unknown field 'kind'/],
    [{ topc: 'x' }, 'INVALID_MESSAGE', /Did you mean 'topic'\?/],
    [{ key: '' }, 'INVALID_MESSAGE', /key must be a string that is not empty/],
    [{ type: 'a\0' }, 'INVALID_MESSAGE', /^requeue: type contains a NUL character/],
    [{ topic: '\0' }, 'INVALID_MESSAGE', /topic contains a NUL character/],
    [{ key: 'a\0b', type: 'x' }, 'INVALID_MESSAGE', /key contains a NUL character/],
    [{ type: 'x', limit: 0 }, 'INVALID_MESSAGE', /limit must be a whole number from 1/],
    [{ state: [] }, 'INVALID_MESSAGE', /state must name one of waiting, blocked, dead at least/],
    [{ state: 'ready' }, 'INVALID_MESSAGE', /requeue: state 'ready' is not one of waiting, blocked, dead/],
    [{ state: ['dead', 5] }, 'INVALID_MESSAGE', /state a number is not one of/],
    [{ type: 'x', dryRun: 'yes' }, 'INVALID_MESSAGE', /dryRun must be true or false, not a string/],
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
    const { outbox, filters, nudges } = setup();
    await outbox.release('k');
    expect(await outbox.release('k', { transport: 'audit' })).toEqual({ released: 1 });
    expect([filters, nudges()]).toEqual([[{ key: 'k' }, { key: 'k', transport: 1 }], 2]);
    expect((await refusal(() => outbox.release(''))).message).toMatch(/^release: key must be/);
    const refused = await refusal(() => outbox.release('canary\0'));
    expect([refused.code, refused.message]).toEqual(['INVALID_MESSAGE', 'release: key contains a NUL character.']);
  });
});
