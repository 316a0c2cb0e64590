import type { OutboxMessage } from '../../../../lib/index.js';
import { Pauses } from '../../../../lib/relay/pauses/pauses.js';
import type { Pause } from '../../../../lib/store/pauses/pause-store.js';
import { WakeUps } from '../../../../lib/relay/wake/wake-ups.js';
import { Destinations, type PutOffFor } from '../../../../lib/relay/publish/destinations.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/transport-parts.js';
import type { HastenRequest } from '../../../../lib/store/parked-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/scripted.js';

const missing = (destination: string) => {
  const text = `There is no ${destination}.`;
  const error = new Error(text);
  return { ok: false, blame: 'transport', suspect: 'destination', certain: true, destination, error, text } as const;
};

function createDestinations(maxAge: number | null = null) {
  const [clock, hooks] = [new FakeClock(), new RecordedHooks()];
  const asked: (HastenRequest & { buckets: readonly number[] })[] = [];
  const locked = { rows: 0 };
  const store = {
    hasten: async (_transport: number, buckets: readonly number[], request: HastenRequest) => {
      asked.push({ ...request, buckets });
      return { hastened: locked.rows === 0 ? 1 : 0, passed: locked.rows, next: null };
    },
  };
  const leases = { now: Date.parse('2026-01-01T00:00:00Z'), pauses: new Pauses() };
  const options = { publishTimeout: 10_000, buckets: 32, retry: { maxAge, onDead: 'block' } };
  const transport = { destinationOf: ({ topic }: OutboxMessage) => topic };
  const parts = { clock, hooks, leases, transport, options, store: { parked: store } };
  const deps = { ...parts, name: 'default', id: 0, random: () => 1 };
  const destinations = new Destinations(deps as unknown as TransportRelayDependencies, new WakeUps());
  /** @returns why it is not tried */
  const failed = (topic: string): PutOffFor => {
    destinations.failed(stored({ topic }), missing(topic));
    return destinations.of(stored({ topic })) as PutOffFor;
  };
  return { destinations, clock, hooks, asked, failed, leases, locked };
}

describe('a destination that is missing', () => {
  it('R1: is tried by one message at a time, less and less often, each half minute at least', async () => {
    const { destinations, clock, failed } = createDestinations();
    failed('a');
    const pauses: number[] = [];
    for (let tries = 0; tries < 8; tries += 1) {
      const before = clock.monotonic();
      while (destinations.of(stored({ topic: 'a' })) !== undefined) await clock.advance(500);
      pauses.push(clock.monotonic() - before);
      expect(destinations.of(stored({ topic: 'a' }))).toBeDefined(); // one is on its way
      destinations.failed(stored({ topic: 'a' }), missing('a'));
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    expect(destinations.of(stored({ topic: 'b' }))).toBeUndefined();
  });

  it('R1: of more than are remembered none makes another one forgotten, and the others are tried seldom', () => {
    const { destinations, hooks, failed } = createDestinations();
    for (let n = 0; n < 3_000; n += 1) failed(`t${n % 1_500}`);
    expect(hooks.of('destinationAway')).toHaveLength(1_000);
    const other = stored({ topic: 't1400', createdText: '2025-12-31 23:00:00+00' });
    expect(destinations.of(other)).toBeUndefined();
    expect(destinations.delayOf(other, missing('t1400'))).toBe(60_000);
    destinations.gotThrough(stored({ topic: 't0' }));
    expect(failed('t1400')).toMatchObject({ name: 't1400' });
  });

  it('R1: frees all that waited for it with the first that gets through, and nothing else', async () => {
    const { destinations, asked, hooks, failed } = createDestinations();
    for (const topic of ['a', 'b']) destinations.untried(stored({ topic }), failed(topic));
    expect(await destinations.free([0])).toBe(0);
    destinations.gotThrough(stored({ topic: 'a' }));
    expect(hooks.of('destinationBack')).toEqual([expect.objectContaining({ destination: 'a', putOff: 2 })]);
    expect(await destinations.free([0])).toBe(1);
    expect(asked).toEqual([expect.objectContaining({ topics: ['a'], from: null })]);
    expect(await destinations.free([0])).toBe(0);
  });

  it('R1: frees what was put off before it was back, and is written after that', async () => {
    const { destinations, asked, failed } = createDestinations();
    const away = failed('a');
    destinations.untried(stored({ topic: 'a' }), away);
    destinations.gotThrough(stored({ topic: 'a' }));
    await destinations.free([0]);
    destinations.written(away, stored({ topic: 'a' }));
    expect(await destinations.free([0])).toBe(1);
    expect(asked).toHaveLength(2);
  });

  it('R10: frees what others put off when a bucket comes from another relay', async () => {
    const { destinations, asked } = createDestinations();
    destinations.freeing.add(null, [3]);
    expect(await destinations.free([0, 3])).toBe(1);
    expect(asked).toEqual([expect.objectContaining({ topics: null, buckets: [3] })]);
  });

  it('R1: that nobody asks for any more is forgotten: its messages are freed, and it is not called back', async () => {
    const { destinations, clock, hooks, failed } = createDestinations();
    destinations.untried(stored({ topic: 'a' }), failed('a'));
    destinations.looked([{ destination: 'a', error: new Error('Nobody made it.') }]);
    await clock.advance(181_000);
    expect(destinations.list(clock.monotonic())).toEqual([]);
    expect(hooks.of('destinationBack')).toEqual([]);
    expect(await destinations.free([0])).toBe(1);
  });

  it('R4: retry.maxAge ends the wait of its messages', () => {
    const { destinations, failed, leases } = createDestinations(600_000);
    const away = failed('a');
    const message = stored({ topic: 'a', key: 'k' });
    expect(destinations.untried(message, away)).toEqual({ kind: 'retry', attempts: 0, delay: 600_000 });
    leases.now += 600_000;
    expect(destinations.untried(message, away)).toEqual({ kind: 'dead', attempts: 0, blocks: true });
  });
});

describe('a topic or a key that an operator paused', () => {
  const paused = (fields: Partial<Pause>): Pause => ({
    ...{ transport: 0, topic: null, key: null, since: new Date(1), actor: 'ann', reason: 'wrong prices' },
    ...fields,
  });

  it('is put off without a try and without an error, whatever its age, and nothing else is', () => {
    const { destinations, leases } = createDestinations(1);
    leases.pauses.heard([paused({ topic: 'a' }), paused({ topic: 'b', key: 'k' }), paused({ transport: 1, key: 'l' })]);
    expect(destinations.someWait).toBe(true);
    const away = destinations.of(stored({ topic: 'a' })) as PutOffFor;
    expect(away).toMatchObject({ pause: { topic: 'a' }, error: null });
    const old = stored({ topic: 'a', key: 'k', createdText: '2025-12-31 23:00:00+00' });
    expect(destinations.untried(old, away)).toEqual({
      ...{ kind: 'retry', attempts: 0 },
      delay: 1_800_000,
    });
    expect(destinations.of(stored({ topic: 'b', key: 'k' }))).toMatchObject({ pause: { topic: 'b', key: 'k' } });
    for (const other of [{ topic: 'b' }, { topic: 'b', key: 'l' }, { topic: 'c', key: 'k' }])
      expect(destinations.of(stored(other))).toBeUndefined();
    expect(destinations.list(0)).toEqual([]);
  });

  it('is freed when the pause is over: a topic by its name, with a key all that waits', async () => {
    const { destinations, asked } = createDestinations();
    destinations.resumed([paused({ topic: 'a' }), paused({ topic: 'b', key: 'k' })]);
    expect(await destinations.free([0, 1])).toBe(1);
    destinations.resumed([paused({ topic: 'a' }), paused({ key: 'k' })]);
    expect(await destinations.free([0, 1])).toBe(1);
    expect(asked).toMatchObject([
      { topics: ['a', 'b'], buckets: [0, 1] },
      { topics: null, buckets: [0, 1] },
    ]);
  });

  it('is freed once more when its row is written after the end of the pause', async () => {
    const { destinations, leases, asked } = createDestinations();
    const pause = paused({ key: 'k' });
    leases.pauses.heard([pause]);
    const message = stored({ topic: 'a', key: 'k', bucket: 9 });
    const away = destinations.of(message) as PutOffFor;
    destinations.untried(message, away);
    destinations.written(away, message); // in time: nothing is due
    expect(destinations.freeing.isOn).toBe(false);
    leases.pauses.heard([]);
    destinations.written(away, message);
    expect(await destinations.free([9])).toBe(1);
    expect(asked).toMatchObject([{ topics: ['a'], buckets: [9] }]);
  });

  it('is looked for again where somebody had it locked: after a rest, which grows up to ten seconds', async () => {
    const { destinations, asked, clock, locked } = createDestinations();
    locked.rows = 1;
    destinations.resumed([paused({ topic: 'a' })]);
    const rests: number[] = [];
    for (let looks = 0; looks < 9; looks += 1) {
      expect(await destinations.free([0])).toBe(0);
      expect(asked).toHaveLength(looks + 1);
      const before = clock.monotonic();
      while (!destinations.freeing.isOn) {
        expect(await destinations.free([0])).toBe(0); // it does not look meanwhile
        await clock.advance(50);
      }
      rests.push(clock.monotonic() - before);
    }
    expect(rests).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
    locked.rows = 0;
    expect(await destinations.free([0])).toBe(1);
    await clock.advance(10_000);
    expect(destinations.freeing.isOn).toBe(false);
    expect(asked).toHaveLength(10);
  });
});
