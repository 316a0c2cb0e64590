import { CLEAN, commit, fault, judge, life, SECOND, sight, uid } from './planted.js';

/** One sample of relay 1 in two seconds, as it writes them; it was up at 1 s. */
function samples(
  count: number,
  of: (n: number) => { rss?: number; descriptors?: number; delay?: number },
): unknown[][] {
  return Array.from({ length: count }, (_, n) => {
    const { rss = 100, descriptors = 20, delay = 40 } = of(n);
    return ['m', 1, (3 + 2 * n) * SECOND, rss, descriptors, delay];
  });
}
const RELAY = life(1, 0, 0);
/** Once in each window. */
const works = (from: number, count: number): unknown[][] => [
  ['l', 0, 0, 5, 'owner 1', 1],
  ...Array.from({ length: count }, (_, n) => ['p', 1, 0, [5, (from + 2 * n) * SECOND]]),
];
/** The harness writes down a calm when it is over, before what the relays say and after what it saw itself. */
const calm = (from: number, to: number): unknown[] => ['calm', from * SECOND, to * SECOND];

describe('the checker of the chaos runs: what relays take', () => {
  it('memory: a relay that grows as it gets older', () => {
    const growing = (slope: number) => samples(600, (n) => ({ rss: 100 + (slope * n) / 30 }));
    const busy = [...RELAY, ...works(2, 600)];
    expect(judge(...CLEAN, ...busy, ...growing(0.5))).toMatchObject({ rssMbPerMinute: 0.5, broken: [] });
    expect(judge(...CLEAN, ...busy, ...growing(2))).toMatchObject({ rssMbPerMinute: 2, broken: ['memoryGrowth'] });
    const paused = [...RELAY, ...works(2, 100), ...works(322, 440)];
    const takesAgain = samples(600, (n) => ({ rss: n < 160 ? 150 : Math.min(150, 100 + (n - 160)) }));
    expect(judge(...CLEAN, ...paused, ...takesAgain)).toMatchObject({ rssMbPerMinute: 0, broken: [] });
  });

  it('descriptors: more and more of them', () => {
    const growing = (slope: number) => samples(600, (n) => ({ descriptors: 20 + (slope * n) / 30 }));
    expect(judge(...CLEAN, ...RELAY, ...growing(1))).toMatchObject({ descriptorsPerMinute: 1, broken: [] });
    expect(judge(...CLEAN, ...RELAY, ...growing(3))).toMatchObject({
      descriptorsPerMinute: 3,
      broken: ['descriptorGrowth'],
    });
  });

  it('event loop: it stood still in a calm', () => {
    const once = (at: number) => samples(30, (n) => ({ delay: n === at ? 1_200 : 40 }));
    expect(judge(...CLEAN, ...RELAY, calm(20, 40), ...once(12))).toMatchObject({
      maxLoopDelayMs: 1_200,
      loopBlocks: 1,
      broken: ['loopBlocks'],
    });
    // Not in a calm, or not only; or while it started.
    for (const [from, to] of [
      [30, 60],
      [26, 60],
      [0, 26],
    ] as const)
      expect(judge(...CLEAN, ...RELAY, calm(from, to), ...once(12))).toMatchObject({ maxLoopDelayMs: 40, broken: [] });
    expect(judge(...CLEAN, ...RELAY, calm(0, 60), ...once(0))).toMatchObject({ maxLoopDelayMs: 40, broken: [] });
  });

  it('connections: more than configured in a calm, to the database or to the broker', () => {
    const counted = (of: 'n' | 'k', count: number) => judge(...CLEAN, [of, 5 * SECOND, 0, count], calm(0, 20));
    expect(counted('n', 7)).toMatchObject({ maxDbConnections: 7, broken: [] });
    expect(counted('n', 8)).toMatchObject({ maxDbConnections: 8, broken: ['connectionLeaks'] });
    expect(counted('k', 2)).toMatchObject({ maxBrokerConnections: 2, broken: [] });
    expect(counted('k', 3)).toMatchObject({ maxBrokerConnections: 3, broken: ['brokerConnectionLeaks'] });
    // While connections break, the old and the new ones overlap.
    expect(judge(...CLEAN, ['k', 25 * SECOND, 0, 3], calm(0, 20))).toMatchObject({ broken: [] });
  });

  it('secrets: a leak, and how much was read through', () => {
    expect(judge(...CLEAN, ['searched', 12, 30])).toMatchObject({
      leaks: 0,
      searchedFiles: 12,
      searchedErrors: 30,
      broken: [],
    });
    expect(judge(...CLEAN, ['leak', 'relay-1.log', 'payload'], ['searched', 12, 30])).toMatchObject({
      leaks: 1,
      broken: ['leaks'],
    });
  });

  it('leases held by nobody that lives, wrong bytes, a relay that fell over', () => {
    expect(judge(...CLEAN, ['held', 3])).toMatchObject({ broken: ['heldLeases'] });
    expect(judge(...CLEAN, ['x', 0, 1, 'zzz'])).toMatchObject({ broken: ['corrupt'] });
    expect(judge(...CLEAN, ['crash', 1, SECOND, 1, null, true])).toMatchObject({ broken: ['crashes'] });
    expect(judge(...CLEAN, ['crash', 1, SECOND, 1, null, false])).toMatchObject({ startFailures: 1, broken: [] });
  });
});

describe('the checker of the chaos runs: takeovers', () => {
  const relays = [...life(1, 0, 0), ...life(2, 1, 0)];
  const had = ['l', SECOND, 0, 5, 'owner 1', 1];
  const killed = fault('relay-kill', [1], 30 * SECOND, 31 * SECOND);
  const taken = (at: number): unknown[] => ['l', at * SECOND, 0, 5, 'owner 2', 2];
  const drained = (at: number): unknown[] => ['drained', at * SECOND];

  it('later than promised, and nothing hindered it', () => {
    expect(judge(...killed, ...relays, had, taken(40), ...CLEAN)).toMatchObject({ takeoverMaxMs: 10_000, broken: [] });
    const late = [...relays, had, taken(50), ...CLEAN];
    expect(judge(...killed, ...late)).toMatchObject({ takeoverP99Ms: 20_000, broken: ['slowTakeovers'] });
    const frozen = (from: number) => fault('relay-freeze', [2], from * SECOND, (from + 5) * SECOND, 2);
    expect(judge(...killed, ...frozen(35), ...late)).toMatchObject({ slowTakeovers: 0 });
    // It should have had it by then.
    expect(judge(...killed, ...frozen(45), ...late)).toMatchObject({ slowTakeovers: 1 });
    const writer = fault('writer-kill', [], 35 * SECOND, 36 * SECOND, 2);
    expect(judge(...killed, ...writer, ...late)).toMatchObject({ slowTakeovers: 1 });
  });

  it('never, while relays were there for longer than it may take', () => {
    expect(judge(...killed, ...relays, had, ...CLEAN, drained(60))).toMatchObject({ takeovers: 0, slowTakeovers: 1 });
    expect(judge(...killed, ...relays, had, ...CLEAN, drained(40))).toMatchObject({ slowTakeovers: 0, broken: [] });
  });

  it('a bucket without an owner that lives, whatever its owner lost it by', () => {
    const given = ['l', 30 * SECOND, 0, 5, null, 1];
    const reset = fault('database-reset', [1], 30 * SECOND, 31 * SECOND);
    const quiet = calm(46, 56);
    expect(judge(...reset, ...relays, had, given, ...CLEAN, quiet)).toMatchObject({ broken: ['unownedBuckets'] });
    expect(judge(...reset, ...relays, had, given, ...CLEAN, drained(56))).toMatchObject({ unownedBuckets: 1 });
    expect(judge(...reset, ...relays, had, given, taken(42), ...CLEAN, quiet)).toMatchObject({ broken: [] });
    expect(judge(...reset, ...relays, had, ...CLEAN, quiet)).toMatchObject({ broken: [] });
    // Its owner is another life now, which has a name of its own.
    expect(judge(...reset, ...relays, ...life(3, 0, 32 * SECOND), had, ...CLEAN, quiet)).toMatchObject({
      broken: ['unownedBuckets'],
    });
    // Nobody is there, nothing is known for long enough, or a relay has only come up.
    expect(judge(...reset, had, given, ...CLEAN, quiet)).toMatchObject({ broken: [] });
    expect(judge(...reset, ...relays, had, given, ...CLEAN, calm(33, 43))).toMatchObject({ broken: [] });
    expect(judge(...reset, ...relays, ...life(3, 0, 45 * SECOND), had, ...CLEAN, quiet)).toMatchObject({ broken: [] });
  });
});

describe('the checker of the chaos runs: after a fault of all relays', () => {
  const leases = [
    ['l', SECOND, 0, 5, 'owner 1', 1],
    ['l', SECOND, 0, 6, 'owner 2', 1],
  ];
  const relays = [...life(1, 0, 0), ...life(2, 1, 0), ...leases];
  const written = [...commit(1, 0), ...commit(2, SECOND), ...commit(3, 2 * SECOND)];
  const [before, drain] = [sight(29 * SECOND, 1, uid(1, 1), uid(1, 2)), ['drain', 100 * SECOND]];
  const next = (at: number, redelivered = 0): unknown[] => ['s', 0, at * SECOND, 1, redelivered, [uid(1, 3)]];
  const after = (kind: string, runs: number[] | 'all', ...lines: unknown[][]): Record<string, unknown> =>
    judge(...fault(kind, runs, 30 * SECOND, 31 * SECOND), ...relays, drain, ...written, before, ...lines);

  it('the first publish comes within lease and polls, or when a circuit must have closed', () => {
    expect(after('database-kill', 'all', next(43))).toMatchObject({
      firstPublishAfterHealMaxMs: 12_000,
      firstPublishesAfterHeal: 1,
      broken: [],
    });
    expect(after('database-kill', 'all', next(45))).toMatchObject({
      firstPublishAfterHealMaxMs: 14_000,
      broken: ['slowRecoveries'],
    });
    expect(after('broker-refuse', [1, 2], next(49))).toMatchObject({ firstPublishAfterHealMaxMs: 18_000, broken: [] });
    expect(after('broker-refuse', [1, 2], next(60))).toMatchObject({ broken: ['slowRecoveries'] });
  });

  it('what the broker repeats was published before; silence counts as long as somebody writes', () => {
    const redelivered = ['s', 0, 32 * SECOND, 1, 1, [uid(1, 2)]];
    expect(after('broker-kill', 'all', redelivered, next(60))).toMatchObject({ slowRecoveries: 1 });
    expect(after('broker-kill', 'all', sight(32 * SECOND, 1, uid(1, 3)))).toMatchObject({ broken: [] });
    expect(after('broker-kill', 'all')).toMatchObject({ firstPublishesAfterHeal: 0, slowRecoveries: 1 });
    expect(after('broker-kill', 'all', ['drain', 40 * SECOND])).toMatchObject({ slowRecoveries: 0 });
  });
});
