import { CLEAN, commit, fault, judge, life, SECOND, sight, uid } from './planted.js';

/** What the watchdog saw and what health said, at times in seconds. */
const looked = (at: number, since: number): unknown[] => ['w', at * SECOND, [[0, 5, since * SECOND]]];
const said = (run: number, at: number, status: string, ...codes: string[]): unknown[] => [
  'h',
  run,
  at * SECOND,
  status,
  codes,
];
const RELAYS = [...life(1, 0, 0), ...life(2, 1, 0)];

describe('the checker of the chaos runs: ready rows stand', () => {
  const all = [...CLEAN, ...RELAYS];
  const UP = [said(1, 69, 'up'), said(2, 70, 'degraded', 'dead_letters', 'keys_blocked')];
  const unexplained = { unexplainedStandstills: 1, explainedStandstills: 0, broken: ['unexplainedStandstills'] };

  it('for more than two leases, and nobody says why', () => {
    expect(judge(...all, ...UP, looked(70, 40), looked(72, 40))).toMatchObject(unexplained);
    expect(judge(...all, looked(70, 40))).toMatchObject(unexplained);
    expect(judge(...all, ...UP, looked(70, 46))).toMatchObject({ broken: [] });
    expect(judge(...all, ...UP, ['w', 70 * SECOND, []])).toMatchObject({ broken: [] });
  });

  it('one of those that are there says why, at about that time', () => {
    const why = (at: number) =>
      judge(...all, ...UP, said(2, at, 'degraded', 'dead_letters', 'standing_still'), looked(70, 40));
    expect(why(72)).toMatchObject({ explainedStandstills: 1, unexplainedStandstills: 0, broken: [] });
    expect(why(66)).toMatchObject({ broken: [] });
    for (const at of [60, 80]) expect(why(at)).toMatchObject(unexplained);
    expect(judge(...all, said(2, 71, 'down'), looked(70, 40))).toMatchObject({ broken: [] });
  });

  it('not judged soon after a fault of the relays, or where nobody was there all the time', () => {
    const after = (runs: number[], to: number) =>
      judge(...fault('relay-freeze', runs, 50 * SECOND, to * SECOND), ...all, ...UP, looked(70, 40));
    expect(after([1], 60)).toMatchObject({ broken: [] });
    expect(after([1], 56)).toMatchObject(unexplained);
    expect(after([], 60)).toMatchObject(unexplained);
    expect(judge(...CLEAN, ...life(1, 0, 45 * SECOND), ...UP, looked(70, 40))).toMatchObject({ broken: [] });
  });
});

describe('the checker of the chaos runs: one topic is missing', () => {
  const written = Array.from({ length: 8 }, (_, n) => commit(n + 1, n * SECOND)).flat();
  const missing = fault('topic-missing', 'all', 30 * SECOND, 40 * SECOND);
  /** Every three seconds but for some. */
  const seen = (...without: number[]): unknown[][] =>
    [24, 27, 30, 33, 36, 39, 42, 45].map((at, n) => sight((without.includes(at) ? 25 : at) * SECOND, 1, uid(1, n + 1)));
  const drain = [['drain', 100 * SECOND]];

  it('the others go on', () => {
    expect(judge(...missing, ...written, ...drain, ...seen())).toMatchObject({ judgedAbsences: 1, broken: [] });
    for (const without of [
      [33, 36],
      [36, 39],
      [30, 33],
    ])
      expect(judge(...missing, ...written, ...drain, ...seen(...without))).toMatchObject({
        haltedNeighbours: 1,
        broken: ['haltedNeighbours'],
      });
  });

  it('not judged where something else may have stopped all of them, or when nothing is written any more', () => {
    const beside = (kind: string, runs: number[] | 'all', from: number) => [
      ...fault(kind, runs, from * SECOND, (from + 1) * SECOND, 2),
      ...missing,
      ...written,
      ...drain,
      ...seen(33, 36),
    ];
    const none = { judgedAbsences: 0, haltedNeighbours: 0 };
    expect(judge(...beside('database-kill', 'all', 20))).toMatchObject(none);
    expect(judge(...beside('relay-kill', [1, 2], 20))).toMatchObject(none);
    expect(judge(...beside('exchange-missing', 'all', 20))).toMatchObject(none);
    for (const other of [
      beside('relay-kill', [1], 20),
      beside('topic-missing', 'all', 20),
      beside('database-kill', 'all', 5),
      beside('numbers-back', [], 35),
    ])
      expect(judge(...other)).toMatchObject({ haltedNeighbours: 1 });
    expect(judge(...missing, ...written, ...seen(33, 36), ['drain', 39 * SECOND])).toMatchObject(none);
  });
});
