import { CLEAN, fault, judge, life, SECOND, sight, uid } from './planted.js';

/** The third transaction of the writer, which is not there: its COMMIT was called, and returned or not. */
const gone = (called: number, returned?: number): unknown[][] => [
  ['q', 1, [3, called]],
  ...(returned === undefined ? [] : [['e', 1, [3, returned]]]),
];
/** Between the seconds 10 and 13; the replica had everything at 10.2. */
const FAILOVER = [
  ...fault('database-failover', 'all', 10 * SECOND, 13 * SECOND),
  ['lossy', 10.2 * SECOND, 13 * SECOND],
];

describe('a failover to a replica that lags', () => {
  it('loses what committed after the replica had everything, as a whole, and some of it may have been published', () => {
    const seen = sight(14 * SECOND, 1, uid(1, 3));
    const verdict = judge(...FAILOVER, ...CLEAN.slice(0, -1), ...gone(11 * SECOND, 11.1 * SECOND), CLEAN.at(-1)!, seen);
    expect(verdict).toMatchObject({ failovers: 1, vanishedCommits: 1, vanishedPublished: 1, broken: [] });
  });

  it('is the only thing that may: a COMMIT that returned is there', () => {
    expect(judge(...CLEAN, ...gone(11 * SECOND, 11.1 * SECOND))).toMatchObject({ lost: 1, broken: ['lost'] });
    expect(judge(...CLEAN, ...gone(11 * SECOND))).toMatchObject({ broken: [] });
  });

  it('ghosts: before it, after the relays must know, and what was not about to commit', () => {
    const ghost = { ghosts: 1, broken: ['ghosts'] };
    const told = (at: number, ...lines: unknown[][]): unknown =>
      judge(...FAILOVER, ...CLEAN.slice(0, -1), ...lines, CLEAN.at(-1)!, sight(at, 1, uid(1, 3)));
    expect(told(10.1 * SECOND, ...gone(10 * SECOND, 10.3 * SECOND))).toMatchObject(ghost);
    expect(told(27 * SECOND, ...gone(11 * SECOND))).toMatchObject(ghost);
    expect(told(14 * SECOND)).toMatchObject(ghost);
    const refused = fault('broker-refuse', [1], 20 * SECOND, 26 * SECOND, 2);
    expect(told(27 * SECOND, ...refused, ...gone(11 * SECOND))).toMatchObject({ vanishedPublished: 1, broken: [] });
  });

  it('ghosts: of a transaction that vanished nothing is left in the tables', () => {
    const left = ['left', 'ready', 0, 0, uid(1, 3)];
    expect(judge(...FAILOVER, ...CLEAN, ...gone(11 * SECOND), left)).toMatchObject({ broken: ['ghosts'] });
  });

  it('may lose leases: for one of them more, a relay publishes what is not its own', () => {
    const relay = [...life(1, 0, 0), ['l', 0, 0, 5, 'owner 2', 1]];
    const published = (at: number): unknown => judge(...FAILOVER, ...CLEAN, ...relay, ['p', 1, 0, [5, at]]);
    expect(published(22 * SECOND)).toMatchObject({ publishAfterLease: 0 });
    expect(published(24 * SECOND)).toMatchObject({ publishAfterLease: 1 });
    expect(published(9 * SECOND)).toMatchObject({ publishAfterLease: 1 });
  });

  it('wrongDeadLetters: told of a message that could not have been', () => {
    const told = ['d', 1, 12 * SECOND, 0, uid(1, 3), 'rejected'];
    expect(judge(...FAILOVER, ...CLEAN, told, ...gone(11 * SECOND))).toMatchObject({ broken: [] });
    expect(judge(...FAILOVER, ...CLEAN, told)).toMatchObject({ wrongDeadLetters: 1, broken: ['wrongDeadLetters'] });
  });
});
