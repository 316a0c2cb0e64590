import { Absence } from '../../../../lib/relay/publish/absence.js';
import type { Away } from '../../../../lib/relay/publish/destinations.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/relay.types.js';
import type { OutboxMessage } from '../../../../lib/outbox-message.js';
import type { PublishFailure } from '../../../../lib/transports/transport.js';
import type { HastenRequest } from '../../../../lib/store/parked-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/relay.js';

const missing = (destination: string): PublishFailure => {
  const error = new Error(`There is no ${destination}.`);
  return { ok: false, blame: 'transport', suspect: 'destination', certain: true, destination, error };
};

function createAbsence(maxAge: number | null = null) {
  const [clock, hooks, asked] = [
    new FakeClock(),
    new RecordedHooks(),
    [] as (HastenRequest & { buckets: readonly number[] })[],
  ];
  const store = {
    hasten: async (_transport: number, buckets: readonly number[], request: HastenRequest) => {
      asked.push({ ...request, buckets });
      return { hastened: 1, next: null };
    },
  };
  const leases = { now: Date.parse('2026-01-01T00:00:00Z') };
  const options = { publishTimeout: 10_000, retry: { maxAge, onDead: 'block' } };
  const transport = { destinationOf: ({ topic }: OutboxMessage) => topic };
  const deps = { clock, hooks, name: 'default', id: 0, random: () => 1, leases, transport, options, store };
  const absence = new Absence(deps as unknown as TransportRelayDependencies, () => undefined);
  /** @returns why it is not tried */
  const failed = (topic: string): Away => {
    absence.failed(stored({ topic }), missing(topic));
    return absence.of(stored({ topic })) as Away;
  };
  return { absence, clock, hooks, asked, failed, leases };
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
    absence.failed(stored({ topic: 'a' }), { ok: false, blame: 'message', error: new Error('refused') });
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
