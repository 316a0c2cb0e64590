import { createUuidV7 } from '../../../lib/message/uuid-v7.js';
import { IdSearch, type IdTable } from '../../../lib/store/find-by-id.js';
import type { StoredRow } from '../../../lib/store/inspect-store.js';
import type { Reach } from '../../../lib/store/seek-time.js';

const id = createUuidV7({ now: () => 1_000_000 })();
const other = createUuidV7({ now: () => 90_000_000 })();
const row = (state: StoredRow['state'], of = id): StoredRow =>
  ({ state, transport: 0, seq: '1', id: of, rowId: null }) as StoredRow;

/** What was asked of three tables that are too long to be looked through, in order. */
function search(has: Record<string, StoredRow[]>, transports = 1, isLong = true) {
  const asked: string[] = [];
  const ask = (what: string, ids: readonly string[]): StoredRow[] => {
    asked.push(`${what} ${ids.length}`);
    return (has[what] ?? []).filter((one) => ids.includes(one.id));
  };
  const table = (name: string): IdTable => ({
    all: async (ids) => {
      const rows = ask(`${name} all`, ids);
      return isLong ? undefined : rows;
    },
    near: async (ids, { after }: Reach) => ask(`${name} ${after / 1_000} s`, ids),
    rest: async (ids) => ask(`${name} rest`, ids),
  });
  const parked = { all: async (ids: readonly string[]) => ask('parked', ids) };
  const ids = new IdSearch({
    ready: table('ready'),
    parked,
    archived: table('archive'),
    transports: async () => transports,
  });
  return { asked, ids };
}
const FIRST = ['ready all 1', 'ready 10 s 1', 'parked 1', 'archive all 1', 'archive 10 s 1'];
const SECOND = ['ready 600 s 1', 'parked 1', 'archive 600 s 1'];

describe('messages by id', () => {
  it('are looked for in whole tables where these are small', async () => {
    const { asked, ids } = search({ 'archive all': [row('published')] }, 2, false);
    expect(await ids.find([id])).toEqual({ rows: [row('published')], isComplete: true });
    expect(asked).toEqual(['ready all 1', 'parked 1', 'archive all 1']);
  });

  it('are found near the time of their id in long ones, and not looked for anywhere else', async () => {
    for (const [where, state] of [
      ['ready 10 s', 'ready'],
      ['parked', 'dead'],
      ['archive 10 s', 'published'],
    ] as const) {
      const { asked, ids } = search({ [where]: [row(state)] });
      expect(await ids.find([id])).toEqual({ rows: [row(state)], isComplete: true });
      expect(asked).toEqual(FIRST);
    }
  });

  it('are looked for a little farther, then everywhere; a message that is nowhere is not there', async () => {
    const far = search({ 'archive 600 s': [row('published')] });
    expect(await far.ids.find([id])).toEqual({ rows: [row('published')], isComplete: true });
    expect(far.asked).toEqual([...FIRST, ...SECOND]);
    const nowhere = search({ 'archive rest': [row('published')] });
    const rest = ['ready rest 1', 'parked 1', 'archive rest 1'];
    expect(await nowhere.ids.find([id])).toEqual({ rows: [row('published')], isComplete: true });
    expect(nowhere.asked).toEqual([...FIRST, ...SECOND, ...rest]);
  });

  it('are looked for farther in other transports, and nobody says that this was all', async () => {
    const { asked, ids } = search({ 'ready 10 s': [row('ready')] }, 2);
    expect(await ids.find([id])).toEqual({ rows: [row('ready')], isComplete: false });
    expect(asked).toEqual([...FIRST, ...SECOND]);
  });

  it('do not try a long table again soon, and look for ids of one time together', async () => {
    const { asked, ids } = search({ 'ready 10 s': [row('ready')], 'archive 600 s': [row('published', other)] });
    await ids.find([id]);
    asked.length = 0;
    expect((await ids.find([id, other])).rows.map((one) => one.id)).toEqual([id, other]);
    const first = ['ready 10 s 1', 'ready 10 s 1', 'parked 2', 'archive 10 s 1', 'archive 10 s 1'];
    expect(asked).toEqual([...first, ...SECOND]);
  });

  it('say that something may be missing when a table could not be looked through in time', async () => {
    const { ids } = search({});
    (ids.tables.archived as { rest: unknown }).rest = async () => undefined;
    expect(await ids.find([id])).toEqual({ rows: [], isComplete: false });
  });
});
