import { readStats } from '../../../lib/observe/stats.js';
import type { StatsRequest } from '../../../lib/store/admin-store.js';

const NOW = Date.UTC(2030, 0, 1);
const ids = new Map([
  ['default', 1],
  ['other', 2],
]);
/** A store with one transport, whose messages are counted by topic where that is asked. */
function createStore(...counts: [topic: string, count: number][]) {
  const asked: number[] = [];
  const stats = async ({ topicsOf = [] }: StatsRequest) => {
    asked.push(...topicsOf);
    return [{ transport: 1, name: 'default', topics: topicsOf.includes(1) ? new Map(counts) : undefined }];
  };
  const leases = { living: async () => ({ instances: [], now: 0 }) };
  return { asked, store: { admin: { stats }, leases } as never };
}
const relay = (transport: string, ...away: { name: string; topics: string[] | null }[]) => ({
  transport,
  away: away.map((one) => ({ ...one, awayFor: 60_000, error: 'There is none.' })),
});

describe('stats() by destination', () => {
  it('R7: names each that is away, since when, why, and how many messages of its topics are put off', async () => {
    const { store, asked } = createStore(['a', 3], ['b', 4], ['c', 5]);
    const relays = [
      relay('default', { name: 'queue "x"', topics: ['a', 'b', 'z'] }, { name: 'queue "y"', topics: [] }),
      relay('other'),
    ];
    const { away } = await readStats(store, ids, { statuses: relays, now: NOW });
    const common = { transport: 'default', since: new Date(NOW - 60_000), lastError: 'There is none.' };
    expect(away).toEqual([
      { ...common, destination: 'queue "x"', waiting: 7 },
      { ...common, destination: 'queue "y"', waiting: 0 },
    ]);
    expect(asked).toEqual([1]); // once, and not where nothing is away
  });

  it('R7: says that a count is not known: of more topics than are kept, and of a transport that is not known', async () => {
    const relays = [relay('default', { name: 'exchange "x"', topics: null })];
    expect((await readStats(createStore().store, ids, { statuses: relays, now: NOW })).away).toMatchObject([
      { waiting: null },
    ]);
    const few = [relay('unknown', { name: 'exchange "x"', topics: ['a'] })];
    expect((await readStats(createStore().store, ids, { statuses: few, now: NOW })).away).toMatchObject([
      { waiting: null },
    ]);
  });
});
