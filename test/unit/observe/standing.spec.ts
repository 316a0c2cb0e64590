import { OutboxError } from '../../../lib/outbox.errors.js';
import { RelayLoops } from '../../../lib/relay/relay-loops.js';
import type { Counted } from '../../../lib/observe/health.js';
import { Probe } from '../../../lib/observe/probe.js';
import { Standing, type Stand } from '../../../lib/observe/standing.js';
import { standstill, type Around } from '../../../lib/observe/standstill.js';
import type { Head, StatsRequest, TransportStats } from '../../../lib/store/admin-store.js';

const head = (bucket: number, seq: number, change: Partial<Head> = {}): Head => ({
  bucket,
  seq: String(seq),
  id: `id-${seq}`,
  age: 1_000,
  ready: 1,
  lease: null,
  ...change,
});
const glance = (heads: readonly Head[]): TransportStats => ({
  transport: 0,
  name: 'main',
  scheduled: 0,
  waiting: 0,
  blocked: 0,
  dead: 0,
  blockedKeys: 0,
  leasedBuckets: 0,
  ready: 0,
  readyIsExact: true,
  oldestReadyAge: null,
  heads,
});

describe('S6: whether what is ready gets ahead', () => {
  const seen = (...looks: (readonly Head[])[]) => {
    const standing = new Standing();
    looks.forEach((heads, second) => standing.looked([glance(heads)], [0, 1], second * 1_000));
    return standing.at(0, (looks.length - 1) * 1_000);
  };

  it('counts from the first look, and begins anew when one bucket moves or is empty', () => {
    expect(seen([head(0, 1)]).standsFor).toBe(0);
    expect(seen([head(0, 1)], [head(0, 1)], [head(0, 1)]).standsFor).toBe(2_000);
    expect(seen([head(0, 1), head(1, 2)], [head(0, 3), head(1, 2)], [head(0, 3), head(1, 2)]).standsFor).toBe(1_000);
    expect(seen([head(0, 1), head(1, 2)], [head(1, 2)], [head(1, 2)]).standsFor).toBe(1_000);
    expect(seen([head(0, 1)], [], [])).toEqual({ stands: [], standsFor: 0 });
  });

  it('does not take for moving what comes into an empty bucket, or becomes visible in front', () => {
    const { stands, standsFor } = seen([head(0, 5)], [head(0, 5), head(1, 6)], [head(0, 4), head(1, 6)]);
    expect(standsFor).toBe(2_000);
    expect(stands.map(({ id, standsFor: ms }) => [id, ms])).toEqual([
      ['id-4', 2_000],
      ['id-6', 1_000],
    ]);
  });
});

describe('S6: what is said of it', () => {
  const around = (change: Partial<Around> = {}): Around => ({
    name: 'main',
    now: 100_000,
    lease: 30_000,
    soon: 15_000,
    isSaid: false,
    holds: null,
    owner: 'me',
    leased: new Set([0, 1]),
    unleased: false,
    waitsFor: () => false,
    ...change,
  });
  const stand = (bucket: number, standsFor: number, change: Partial<Head> = {}): Stand => ({
    ...head(bucket, bucket + 1, change),
    standsFor,
  });
  const other = (alive: boolean) => ({ owner: 'other', remaining: 9_000, alive });
  const said = (stands: readonly Stand[], standsFor: number, change: Partial<Around> = {}): readonly string[] =>
    standstill({ stands, standsFor }, around(change)).map(({ text }) => text);

  it('nothing before two leases, nothing that is said already', () => {
    expect(said([], 0)).toEqual([]);
    expect(said([stand(0, 59_999)], 59_999)).toEqual([]);
    expect(said([stand(0, 60_000)], 60_000)).toEqual([
      "Messages for 'main' are ready, and none has moved for 1m: id-1 is the first of bucket 0, ready for 1s; this process has leased the bucket.",
    ]);
    expect(said([stand(0, 60_000)], 60_000, { isSaid: true })).toEqual([]);
    expect(said([stand(0, 60_000, { age: null })], 60_000, { holds: 'a failed message' })).toEqual([
      "Messages for 'main' are ready, and none has moved for 1m: id-1 is the first of bucket 0; all wait for a failed message.",
    ]);
  });

  it('S8: sooner where a relay has leased none of these buckets', () => {
    const elsewhere = [stand(2, 15_000, { lease: other(false) })];
    expect(said(elsewhere, 14_999)).toEqual([]);
    expect(said(elsewhere, 15_000)).toEqual([expect.stringContaining('instance other, which has gone silent')]);
    expect(said(elsewhere, 15_000, { leased: undefined })).toEqual([]);
    expect(said([...elsewhere, stand(0, 15_000)], 15_000)).toEqual([]);
    expect(said([stand(2, 15_000)], 15_000, { unleased: true, leased: new Set() })).toEqual([]);
  });

  it('S7: of one bucket beside others that move: not of one that is in hand, or of another instance that lives', () => {
    const one = (change: Partial<Around>, what: Partial<Head> = {}, bucket = 0) =>
      said([stand(bucket, 60_000, what), stand(1, 0)], 0, change).length;
    expect([one({}), one({ waitsFor: () => true }), one({ unleased: true })]).toEqual([1, 0, 0]);
    expect([one({}, {}, 2), one({}, { lease: other(true) }, 2), one({}, { lease: other(false) }, 2)]).toEqual([
      1, 0, 1,
    ]);
    expect(one({}, { lease: { ...other(true), owner: 'me' } }, 2)).toBe(1);
    expect(said([stand(0, 60_000), stand(2, 61_000), stand(1, 0)], 0)).toEqual([
      expect.stringMatching(
        /^A message for 'main' .* for 61s while others go out, as those of 1 more buckets do: id-3 /,
      ),
    ]);
  });
});

describe('S9: where a look begins', () => {
  function probe(buckets: number, goneUpTo = '0') {
    let now = 0;
    let answer: readonly Head[] | undefined = [];
    const asked: { buckets: number; from: number | undefined; after: string }[] = [];
    const look = async ({ look: asks }: StatsRequest) => {
      const { buckets: which, after } = asks as NonNullable<typeof asks>;
      asked.push({ buckets: which.length, from: which[0], after: after(0, 0) });
      if (answer === undefined) throw new OutboxError('TIMEOUT', 'late');
      return [glance(answer.filter(({ bucket }) => which.includes(bucket)))];
    };
    const settings = {
      lease: 1_000,
      buckets,
      ids: new Map([['main', 0]]),
      now: () => now,
      goneUpTo: () => () => goneUpTo,
    };
    const store = { admin: { stats: look }, leases: { living: async () => ({ instances: [], now: 0 }) } };
    const { ask } = ((made) => ({ ask: () => made.ask() }))(new Probe(store as never, settings));
    return {
      asked,
      ask: async (ms: number, found: readonly Head[] | undefined) => {
        now += ms;
        answer = found;
        return ask();
      },
    };
  }
  const last = ({ asked }: ReturnType<typeof probe>) => asked.at(-1)?.after;

  it('at what was first, or where a relay knows that nothing is before it; every two leases at the beginning', async () => {
    const looks = probe(2, '40');
    await looks.ask(0, [head(0, 50)]);
    expect(last(looks)).toBe('40');
    await looks.ask(1, []);
    expect(last(looks)).toBe('49');
    await looks.ask(1_998, []);
    expect(last(looks)).toBe('49');
    await looks.ask(1, [head(0, 7)]);
    expect(last(looks)).toBe('0');
    await looks.ask(1, [head(0, 7)]);
    expect(last(looks)).toBe('6'); // below what the relay knows: it would be forgotten again
  });

  it('a look from the beginning that takes too long is made seldom, and what was known before it holds', async () => {
    const looks = probe(2);
    const before = await looks.ask(0, [head(0, 50)]);
    expect(await looks.ask(2_000, undefined)).toBe(before);
    await looks.ask(2_000, [head(0, 50)]);
    expect(last(looks)).toBe('49');
    expect(await looks.ask(1, undefined)).toEqual({ late: 1_000 });
    await looks.ask(18_000, []);
    expect(last(looks)).toBe('0');
  });

  it('takes in 64 buckets at a time, and adds them up', async () => {
    const looks = probe(100);
    const found = [head(0, 1), head(99, 2, { ready: 16, age: 5_000 })];
    expect(await looks.ask(0, found)).toMatchObject({ transports: { main: { ready: 1, readyIsExact: false } } });
    expect(await looks.ask(1, found)).toMatchObject({
      transports: { main: { ready: 17, readyIsExact: true, oldestReadyAge: 5_000 } },
    });
    expect(looks.asked.map(({ buckets, from }) => [buckets, from])).toEqual([
      [64, 0],
      [36, 64],
    ]);
    expect(await looks.ask(1, [head(28, 3, { ready: 100 })])).toMatchObject({
      transports: { main: { readyIsExact: false } },
    });
  });

  it('S10: counts for how long a message stands up to the last look at its bucket, not up to now', async () => {
    const looks = probe(200);
    const standing = async (ms: number, seq: number) => {
      const answer = await looks.ask(ms, [head(0, seq), head(70, seq + 1), head(130, seq + 2), head(199, seq + 3)]);
      return (answer as Counted).standing?.get('main');
    };
    for (let turn = 0; turn < 8; turn += 1) {
      const { stands = [], standsFor } = (await standing(700, 1 + turn * 10)) ?? {};
      expect([standsFor, ...stands.map((stand) => stand.standsFor)]).toEqual(Array(stands.length + 1).fill(0));
    }
    for (let look = 0; look < 4; look += 1) await standing(700, 71);
    expect((await standing(700, 71))?.stands[0]?.standsFor).toBe(2_800);
  });

  it('where nothing is ready before the first message that is being published', () => {
    const known = { below: '69' };
    const reader = { heads: new Map([[0, '90']]), lowWaterMark: { of: () => '80' }, known };
    const loops = Object.setPrototypeOf({ relay: { reader, deps: {}, room: {} } }, RelayLoops.prototype) as RelayLoops;
    const { knows } = loops;
    expect([knows.goneUpTo(0), knows.goneUpTo(1)]).toEqual(['69', '0']);
    known.below = '99';
    expect(loops.knows.goneUpTo(0)).toBe('80'); // by then
  });
});
