import { CLEAN, commit, fault, judge, life, metaOf, SECOND, sight, uid } from './planted.js';

describe('an emptied table', () => {
  const EMPTIED = fault('table-emptied', [], 3 * SECOND, 3.1 * SECOND);
  const taken = (...uids: number[]): unknown[] => ['taken', 3 * SECOND, 0, uids];
  const third = commit(3, 2.5 * SECOND);

  it('takes what was in it, and nothing else', () => {
    expect(judge(...EMPTIED, ...third, taken(uid(1, 3)), ...CLEAN)).toMatchObject({ taken: 1, lost: 0, broken: [] });
    const other = judge(...EMPTIED, ...third, taken(uid(1, 3)), ...commit(4, 4 * SECOND), ...CLEAN);
    expect(other).toMatchObject({ lost: 1, broken: ['lost'] });
    expect(judge(...EMPTIED, ...third, ...CLEAN)).toMatchObject({ lost: 1, broken: ['lost'] });
  });

  it('stuck: a row of it that is still there', () => {
    const left = ['left', 'parked', 3, 0, uid(1, 3)];
    expect(judge(...EMPTIED, ...third, taken(uid(1, 3)), left, ...CLEAN)).toMatchObject({ broken: ['stuck'] });
  });

  it('ghosts: a row that did not commit', () => {
    expect(judge(...EMPTIED, taken(uid(1, 9)), ...CLEAN)).toMatchObject({ ghosts: 1, broken: ['ghosts'] });
  });

  it('numbers begin again on MariaDB and MySQL, so that what waited has no order with what comes', () => {
    const on = (store: string, ...uids: number[]): unknown =>
      judge(
        metaOf(store),
        ...EMPTIED,
        ...CLEAN,
        ...third,
        ...commit(4, 4 * SECOND),
        ...commit(5, 6 * SECOND),
        sight(7 * SECOND, 1, ...uids),
      );
    const waited = [uid(1, 4), uid(1, 5), uid(1, 3)];
    for (const store of ['mariadb', 'mysql']) expect(on(store, ...waited)).toMatchObject({ broken: [] });
    expect(on('postgres', ...waited)).toMatchObject({ broken: ['orderBreaks'] });
    expect(on('mariadb', uid(1, 3), uid(1, 5), uid(1, 4))).toMatchObject({ orderBreaks: 1, broken: ['orderBreaks'] });
  });
});

describe('leases in the future', () => {
  const AHEAD = fault('lease-ahead', [1], 20 * SECOND, 21 * SECOND);
  const END = ['drained', 60 * SECOND];
  const RELAYS = [...life(1, 0, 0), ...life(2, 1, 0), ['l', SECOND, 0, 5, 'owner 1', 1]];

  it('are taken over a lease after the first look that saw them', () => {
    const taken = (at: number): unknown =>
      judge(...AHEAD, ...CLEAN, ...RELAYS, ['l', at * SECOND, 0, 5, 'owner 2', 2], END);
    // A lease of 10 s, four looks of 1 s, a grace of 2 s.
    expect(taken(33.9)).toMatchObject({ slowTakeovers: 0, takeovers: 0 });
    expect(taken(34.1)).toMatchObject({ slowTakeovers: 1, broken: ['slowTakeovers'] });
  });

  it('slowTakeovers: nobody ever takes their buckets', () => {
    expect(judge(...AHEAD, ...CLEAN, ...RELAYS, END)).toMatchObject({ slowTakeovers: 1 });
  });
});
