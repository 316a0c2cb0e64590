import type { OutboxMessage } from '../../../../lib/index.js';
import { Pauses } from '../../../../lib/relay/pauses/pauses.js';
import type { Hold } from '../../../../lib/relay/pauses/held-back.js';
import type { Pause } from '../../../../lib/store/pauses/pause-store.js';
import { bucketOf } from '../../../../lib/message/bucket-of.js';
import { WakeUps } from '../../../../lib/relay/wake-ups.js';
import { Absence } from '../../../../lib/relay/publish/absence.js';
import type { Away } from '../../../../lib/relay/publish/destinations.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/relay.types.js';
import type { ToldFailure } from '../../../../lib/relay/publish/batch.types.js';
import type { HastenRequest } from '../../../../lib/store/parked-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/scripted.js';

const missing = (destination: string): ToldFailure => {
  const text = `There is no ${destination}.`;
  const error = new Error(text);
  return { ok: false, blame: 'transport', suspect: 'destination', certain: true, destination, error, text };
};

function createAbsence(maxAge: number | null = null) {
  const [clock, hooks, asked] = [
    new FakeClock(),
    new RecordedHooks(),
    [] as (HastenRequest & { buckets: readonly number[] })[],
  ];
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
  const deps = {
    clock,
    hooks,
    name: 'default',
    id: 0,
    random: () => 1,
    leases,
    transport,
    options,
    store: { parked: store },
  };
  const absence = new Absence(deps as unknown as TransportRelayDependencies, new WakeUps());
  /** @returns why it is not tried */
  const failed = (topic: string): Away => {
    absence.failed(stored({ topic }), missing(topic));
    return absence.of(stored({ topic })) as Away;
  };
  return { absence, clock, hooks, asked, failed, leases, locked };
}
const WAITS = { taken: 0, nextIn: 1_000 };

describe('a destination that is missing', () => {
  it('R1: is tried by one message at a time, about as long apart as it was away, half a minute at most', async () => {
    const { absence, clock, failed } = createAbsence();
    failed('a');
    const pauses: number[] = [];
    for (let tries = 0; tries < 8; tries += 1) {
      const before = clock.monotonic();
      while (absence.of(stored({ topic: 'a' })) !== undefined) await clock.advance(500);
      pauses.push(clock.monotonic() - before);
      expect(absence.of(stored({ topic: 'a' }))).toBeDefined(); // one is on its way
      absence.failed(stored({ topic: 'a' }), missing('a'));
    }
    expect(pauses).toEqual([1_000, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    expect(absence.of(stored({ topic: 'b' }))).toBeUndefined();
  });

  it('R1: frees all that waited for it with the first that gets through, and nothing else', async () => {
    const { absence, asked, hooks, failed } = createAbsence();
    for (const topic of ['a', 'b']) absence.untried(stored({ topic }), failed(topic));
    expect(await absence.free(WAITS, () => [0])).toBe(false);
    absence.destinations.gotThrough(stored({ topic: 'a' }));
    expect(hooks.of('destinationBack')).toEqual([expect.objectContaining({ destination: 'a', putOff: 2 })]);
    expect(await absence.free(WAITS, () => [0])).toBe(true);
    expect(asked).toEqual([expect.objectContaining({ topics: ['a'], from: null })]);
    expect(await absence.free(WAITS, () => [0])).toBe(false);
  });

  it('R1: frees what was put off before it was back, and is written after that', async () => {
    const { absence, asked, failed } = createAbsence();
    const away = failed('a');
    absence.untried(stored({ topic: 'a' }), away);
    absence.destinations.gotThrough(stored({ topic: 'a' }));
    await absence.free(WAITS, () => [0]);
    absence.written(away);
    expect(await absence.free(WAITS, () => [0])).toBe(true);
    expect(asked).toHaveLength(2);
  });

  it('R1: that is back while somebody looks at what is due is not forgotten, as nothing was due before', async () => {
    const { absence, asked, failed } = createAbsence();
    absence.untried(stored({ topic: 'a' }), failed('a'));
    const nothing = { taken: 0, nextIn: null };
    const looks = [
      async () => {
        absence.destinations.gotThrough(stored({ topic: 'a' })); // after the server answered, before that was heard
        return nothing;
      },
      async () => ({ taken: 1, nextIn: null }),
    ];
    expect(
      await absence.look(
        () => looks.shift()!(),
        () => [0],
        1,
      ),
    ).toEqual({ taken: 1, nextIn: null });
    expect(asked).toEqual([expect.objectContaining({ topics: ['a'] })]);
  });

  it('R1: is tried by the next message at once where the one whose turn it was fails of itself', async () => {
    const { absence, clock, failed } = createAbsence();
    failed('a');
    await clock.advance(1_000);
    expect(absence.of(stored({ topic: 'a' }))).toBeUndefined(); // the try
    expect(absence.of(stored({ topic: 'a' }))).toBeDefined();
    absence.failed(stored({ topic: 'a' }), { ok: false, blame: 'message', error: undefined, text: 'refused' });
    expect(absence.of(stored({ topic: 'a' }))).toBeUndefined();
  });

  it('R1: that is away again keeps the others where they are', async () => {
    const { absence, asked, failed } = createAbsence();
    absence.untried(stored({ topic: 'a' }), failed('a'));
    absence.destinations.gotThrough(stored({ topic: 'a' }));
    absence.untried(stored({ topic: 'a' }), failed('a'));
    expect(await absence.free(WAITS, () => [0])).toBe(false);
    expect(asked).toEqual([]);
  });

  it('R1: is asked for by another message when the one whose turn it was is gone', async () => {
    const { absence, clock, asked, failed } = createAbsence();
    absence.untried(stored({ topic: 'a' }), failed('a'));
    expect(await absence.free(WAITS, () => [0])).toBe(false);
    await clock.advance(5_000);
    expect(await absence.free(WAITS, () => [0])).toBe(true);
    expect(await absence.free(WAITS, () => [0])).toBe(false);
    expect(asked).toEqual([expect.objectContaining({ topics: ['a'] })]);
    expect(absence.of(stored({ topic: 'a' }))).toBeUndefined();
  });

  it('R1: frees what it had put off when a bucket comes from another relay', async () => {
    const { absence, asked } = createAbsence();
    absence.freeing.gain([3]);
    expect(await absence.free(WAITS, () => [0, 3])).toBe(true);
    expect(asked).toEqual([expect.objectContaining({ topics: null })]);
    absence.freeing.gain([3]);
    expect(await absence.free({ taken: 0, nextIn: null }, () => [0, 3])).toBe(false); // nothing waits
    expect(asked).toHaveLength(1);
  });

  it('R10: frees what waits in a bucket that comes while somebody looks at what is due in the others', async () => {
    const { absence, asked } = createAbsence();
    const held = [0];
    const due = async () => {
      if (!held.includes(3)) {
        held.push(3);
        absence.freeing.gain([3]);
      }
      return { taken: 0, nextIn: null };
    };
    await absence.look(due, () => [...held], 1);
    expect(asked).toEqual([expect.objectContaining({ topics: null, buckets: [3] })]);
  });

  it('R1: that nobody asks for any more is forgotten: its messages are freed, and it is not called back', async () => {
    const { absence, asked, clock, hooks, failed } = createAbsence();
    absence.untried(stored({ topic: 'a' }), failed('a'));
    await clock.advance(181_000);
    expect(absence.destinations.list(clock.monotonic())).toEqual([]);
    expect(hooks.of('destinationBack')).toEqual([]);
    expect(await absence.free(WAITS, () => [0])).toBe(true);
    expect(asked).toHaveLength(1);
  });

  it('R4: retry.maxAge ends the wait of its messages', () => {
    const { absence, failed, leases } = createAbsence(600_000);
    const away = failed('a');
    expect(absence.untried(stored({ topic: 'a', key: 'k' }), away)).toEqual({
      kind: 'retry',
      attempts: 0,
      delay: 600_000,
    });
    leases.now += 600_000;
    expect(absence.untried(stored({ topic: 'a', key: 'k' }), away)).toEqual({
      kind: 'dead',
      attempts: 0,
      blocks: true,
    });
  });
});

describe('a topic or a key that an operator paused', () => {
  const paused = (fields: Partial<Pause>): Pause => ({
    ...{ transport: 0, topic: null, key: null, since: new Date(1), actor: 'ann', reason: 'wrong prices' },
    ...fields,
  });

  it('is put off without a try and without an error, whatever its age, and nothing else is', () => {
    const { absence, leases } = createAbsence(1);
    leases.pauses.heard([paused({ topic: 'a' }), paused({ topic: 'b', key: 'k' }), paused({ transport: 1, key: 'l' })]);
    expect(absence.isOn).toBe(true);
    const away = absence.of(stored({ topic: 'a' })) as Hold;
    expect(away).toMatchObject({ pause: { topic: 'a' }, error: null });
    const old = stored({ topic: 'a', key: 'k', createdText: '2025-12-31 23:00:00+00' });
    expect(absence.untried(old, away)).toEqual({
      ...{ kind: 'retry', attempts: 0 },
      delay: 1_800_000,
    });
    expect(absence.of(stored({ topic: 'b', key: 'k' }))).toMatchObject({ pause: { topic: 'b', key: 'k' } });
    for (const other of [{ topic: 'b' }, { topic: 'b', key: 'l' }, { topic: 'c', key: 'k' }])
      expect(absence.of(stored(other))).toBeUndefined();
    expect(absence.destinations.list(0)).toEqual([]);
  });

  it('of what was tried before is put off for as long as any failure, as nothing frees it', () => {
    const { absence, leases } = createAbsence();
    leases.pauses.heard([paused({ topic: 'a' })]);
    const tried = stored({ topic: 'a', attempts: 3, createdText: '2025-12-31 23:59:50+00' });
    expect(absence.untried(tried, absence.of(tried) as Hold)).toMatchObject({ attempts: 3, delay: 10_000 });
  });

  it('is freed when the pause is over: a topic by its name, a key in its buckets', async () => {
    const { absence, leases, asked } = createAbsence();
    const [topic, key] = [paused({ topic: 'a' }), paused({ key: 'k' })];
    leases.pauses.heard([topic, key]);
    const elsewhere = stored({ topic: 'b', key: 'k', bucket: 9 }); // plain SQL may say any bucket
    absence.untried(elsewhere, absence.of(elsewhere) as Hold);
    leases.pauses.heard([]);
    expect(absence.of(elsewhere)).toBeUndefined();
    absence.resumed([topic, key]);
    const held = Array.from({ length: 32 }, (_, n) => n);
    while (await absence.free(WAITS, () => held)) expect(asked.length).toBeLessThan(4);
    expect(asked).toMatchObject([
      { topics: ['a'], buckets: held },
      { topics: null, buckets: [9, bucketOf('k', 32)].sort((a, b) => a - b) },
    ]);
  });

  it('is freed once more when its row is written after the end of the pause', async () => {
    const { absence, leases, asked } = createAbsence();
    for (const scope of [{ topic: 'a' }, { key: 'k' }]) {
      const pause = paused(scope);
      leases.pauses.heard([pause]);
      const message = stored({ topic: 'a', key: 'k', bucket: 9 });
      const away = absence.of(message) as Hold;
      absence.untried(message, away);
      absence.written(away); // in time: nothing is due
      expect(absence.freeing.isOn).toBe(false);
      leases.pauses.heard([]);
      absence.resumed([pause]);
      while (absence.freeing.isOn) await absence.freeing.next([9]);
      const before = asked.length;
      absence.written(away);
      while (absence.freeing.isOn) await absence.freeing.next([9]);
      expect(asked.slice(before)).toMatchObject([{ buckets: [9] }]);
    }
  });

  it('is looked for again where somebody had it locked: after a rest, which grows up to ten seconds', async () => {
    const { absence, asked, clock, locked } = createAbsence();
    locked.rows = 1;
    absence.resumed([paused({ topic: 'a' })]);
    const rests: number[] = [];
    for (let looks = 0; looks < 9; looks += 1) {
      expect(await absence.free(WAITS, () => [0])).toBe(false);
      expect(asked).toHaveLength(looks + 1);
      const before = clock.monotonic();
      while (!absence.freeing.isOn) {
        expect(await absence.free(WAITS, () => [0])).toBe(false); // it does not look meanwhile
        await clock.advance(50);
      }
      rests.push(clock.monotonic() - before);
    }
    expect(rests).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
    locked.rows = 0;
    expect(await absence.free(WAITS, () => [0])).toBe(true);
    await clock.advance(10_000);
    expect(absence.freeing.isOn).toBe(false);
    expect(asked).toHaveLength(10);
  });

  it('that somebody has locked keeps nothing else waiting', async () => {
    const { absence, asked, locked } = createAbsence();
    locked.rows = 1;
    absence.resumed([paused({ topic: 'a' })]);
    await absence.free(WAITS, () => [0]);
    locked.rows = 0;
    absence.freeing.gain([3]);
    expect(await absence.free(WAITS, () => [0, 3])).toBe(true);
    expect(asked.at(-1)).toMatchObject({ topics: null, buckets: [3] });
    absence.resumed([paused({ topic: 'b' })]); // news: at once, with what rests
    expect(await absence.free(WAITS, () => [0, 3])).toBe(true);
    expect(asked.at(-1)).toMatchObject({ topics: ['a', 'b'], from: null });
  });

  it('that is paused again keeps what is not freed yet where it is', async () => {
    const { absence, leases } = createAbsence();
    const first = paused({ topic: 'a' });
    leases.pauses.heard([first]);
    absence.of(stored({ topic: 'a' }));
    leases.pauses.heard([paused({ topic: 'a', since: new Date(2) })]);
    absence.resumed([first]);
    expect(absence.freeing.isOn).toBe(true);
    const message = stored({ topic: 'a' });
    absence.untried(message, absence.of(message) as Hold);
    expect(absence.freeing.isOn).toBe(false);
  });
});
