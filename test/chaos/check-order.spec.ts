import { judge, META, SECOND, sight, uid } from './planted.js';

const STRICT = ['meta', { ...(META[1] as object), ordering: 'strict' }];

interface Times {
  readonly began: number;
  /** When COMMIT was called. */
  readonly called?: number;
  /** When it returned. */
  readonly ended?: number;
}

/** A transaction of one writer with one message of key 7, seconds; what is left out nobody lived to tell. */
function committed(n: number, { began, called, ended }: Times, message = [7, 1, 0]): unknown[][] {
  return [
    ['c', 1, n, began * SECOND, [message]],
    ...(called === undefined ? [] : [['q', 1, [n, called * SECOND]]]),
    ...(ended === undefined ? [] : [['e', 1, [n, ended * SECOND]]]),
  ];
}

/** The first one enqueued first, and committed last. */
const LATE = committed(1, { began: 1, called: 5, ended: 5.1 });
const EARLY = committed(2, { began: 2, called: 3, ended: 3.1 });
const byCommit = sight(6 * SECOND, 1, uid(1, 2), uid(1, 1));
const byEnqueue = sight(6 * SECOND, 1, uid(1, 1), uid(1, 2));

describe('the checker of the chaos runs: a strict order', () => {
  it('in the order of the commits, whatever that of the enqueues', () => {
    expect(judge(STRICT, ...LATE, ...EARLY, byCommit)).toMatchObject({
      ordering: 'strict',
      orderBreaks: 0,
      orderedOverlaps: 1,
      broken: [],
    });
  });

  it('convicts the order of the enqueues, of which an order by key promises nothing', () => {
    expect(judge(STRICT, ...LATE, ...EARLY, byEnqueue)).toMatchObject({ orderBreaks: 1, broken: ['orderBreaks'] });
    expect(judge(...LATE, ...EARLY, byEnqueue)).toMatchObject({ ordering: 'key', orderBreaks: 0, broken: [] });
    expect(judge(...LATE, ...EARLY, byCommit)).toMatchObject({ orderBreaks: 0, broken: [] });
  });

  it('convicts it among others of the key, too', () => {
    const between = committed(3, { began: 1, called: 2, ended: 7 });
    const seen = sight(6 * SECOND, 1, uid(1, 1), uid(1, 3), uid(1, 2));
    expect(judge(STRICT, ...LATE, ...EARLY, ...between, seen)).toMatchObject({ orderBreaks: 1 });
  });

  it('a COMMIT that was called and never answered comes behind what was through by then', () => {
    const unanswered = committed(1, { began: 1, called: 5 });
    expect(judge(STRICT, ...unanswered, ...EARLY, byEnqueue)).toMatchObject({ orderBreaks: 1 });
    // Its writer was killed before it could tell that it called: the begin is all that is known.
    expect(judge(STRICT, ...committed(1, { began: 1 }), ...EARLY, byEnqueue)).toMatchObject({ orderBreaks: 0 });
    expect(judge(STRICT, ...committed(1, { began: 4 }), ...EARLY, byEnqueue)).toMatchObject({ orderBreaks: 1 });
  });

  it('a history in which nothing overlapped proves nothing', () => {
    const after = committed(1, { began: 4, called: 5, ended: 5.1 });
    expect(judge(STRICT, ...after, ...EARLY, byCommit)).toMatchObject({ orderedOverlaps: 0, broken: ['empty'] });
  });

  it('counts the transactions that ran again; what is still staged is stuck', () => {
    const again = ['a', 1, 1, 2 * SECOND];
    expect(judge(STRICT, ...LATE, ...EARLY, again, again, byCommit)).toMatchObject({ conflicts: 2, broken: [] });
    const staged = ['left', 'staged', 0, 0, uid(1, 1)];
    expect(judge(STRICT, ...LATE, ...EARLY, staged, byCommit)).toMatchObject({ stuck: 1, broken: ['stuck'] });
  });
});
