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
});
