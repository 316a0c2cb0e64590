import type { ExpectedMessages, MissingDestination } from '../../../../lib/index.js';
import { Pauses } from '../../../../lib/relay/pauses/pauses.js';
import { WakeUps } from '../../../../lib/relay/wake-ups.js';
import { Absence } from '../../../../lib/relay/publish/absence.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/relay.types.js';
import { MissingCheck } from '../../../../lib/relay/publish/missing-check.js';
import type { ToldFailure } from '../../../../lib/relay/publish/batch.types.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/scripted.js';

type Answer = readonly string[] | Error | 'nothing';

function createCheck(...answers: Answer[]) {
  const [clock, hooks, asked, signals] = [new FakeClock(), new RecordedHooks(), [] as number[], [] as AbortSignal[]];
  const questions: (readonly ExpectedMessages[])[] = [];
  const findMissing = async (
    about: readonly ExpectedMessages[],
    signal: AbortSignal,
  ): Promise<MissingDestination[]> => {
    asked.push(clock.monotonic());
    questions.push(about);
    signals.push(signal);
    const answer = answers.shift() ?? [];
    if (answer === 'nothing') return new Promise(() => undefined);
    if (answer instanceof Error) throw answer;
    return answer.map((destination) => ({ destination, error: new Error(`There is no ${destination}.`) }));
  };
  const transport = { findMissing, connect: async () => undefined, destinationOf: ({ topic = '' }) => topic };
  const options = { publishTimeout: 10_000, retry: { maxAge: null } };
  const leases = { now: 0, pauses: new Pauses() };
  const deps = {
    clock,
    hooks,
    name: 'default',
    transport,
    options,
    leases,
    random: () => 1,
  } as unknown as TransportRelayDependencies;
  const absence = new Absence(deps, new WakeUps());
  const publisher = { connected: true };
  const check = new MissingCheck(publisher, absence, deps);
  const told = () => ({
    away: hooks.of('destinationAway').map(({ destination }) => destination),
    back: hooks.of('destinationBack').map(({ destination, awayFor }) => [destination, awayFor]),
  });
  return { check, clock, hooks, asked, questions, signals, absence, publisher, told };
}

/** There is no such destination, for certain. */
const NOT_THERE: ToldFailure = {
  ok: false,
  blame: 'transport',
  suspect: 'destination',
  destination: 'a',
  certain: true,
  error: new Error('There is no a.'),
  text: 'There is no a.',
};

describe('a look for destinations that are missing', () => {
  it('R6: is had once the transport is connected, and not again where all are there', async () => {
    const { check, clock, asked, publisher } = createCheck([]);
    publisher.connected = false;
    check.start();
    await clock.advance(60_000);
    expect(asked).toEqual([]);
    publisher.connected = true;
    check.connected();
    await clock.advance(600_000);
    expect(asked).toEqual([60_000]);
    expect(clock.pending).toBe(0);
  });

  it('R6: is had again every half minute while one is missing, and each news is told once', async () => {
    const { check, clock, asked, absence, told } = createCheck(['a', 'b'], ['b', 'a'], ['b'], []);
    check.start();
    await clock.advance(30_000);
    expect(told()).toEqual({ away: ['a', 'b'], back: [] });
    expect(absence.destinations.list(clock.monotonic())).toEqual([
      { name: 'a', awayFor: 30_000, putOff: 0, error: 'There is no a.', topics: [] },
      { name: 'b', awayFor: 30_000, putOff: 0, error: 'There is no b.', topics: [] },
    ]);
    await clock.advance(600_000);
    expect(asked).toEqual([0, 30_000, 60_000, 90_000]);
    expect(told()).toEqual({
      away: ['a', 'b'],
      back: [
        ['a', 60_000],
        ['b', 90_000],
      ],
    });
  });

  it('R6: a failed look says nothing of what is missing or there, and is repeated', async () => {
    const { check, clock, asked, told } = createCheck(new Error('connection lost'), ['a'], new Error('again'), ['a']);
    check.start();
    await clock.advance(90_000);
    expect(asked).toEqual([0, 30_000, 60_000, 90_000]);
    expect(told()).toEqual({ away: ['a'], back: [] });
  });

  it('R6: one that hangs is given up in time, and there is never a second one beside it', async () => {
    const { check, clock, asked, signals } = createCheck('nothing');
    check.start();
    await clock.advance(9_999);
    expect(signals[0]?.aborted).toBe(false);
    await clock.advance(1);
    expect(signals[0]?.aborted).toBe(true);
    await clock.advance(600_000);
    expect(asked).toEqual([0]);
  });

  it('R6: ends with its relay, without a word', async () => {
    const { check, clock, signals, told } = createCheck('nothing', ['a']);
    check.start();
    await clock.advance(0);
    check.stop();
    expect(signals[0]?.aborted).toBe(true);
    await clock.advance(600_000);
    expect(told()).toEqual({ away: [], back: [] });
    expect(clock.pending).toBe(0);
  });

  it('R6: puts nothing off, and a message that fails or gets through there later is no second news', async () => {
    const { check, clock, absence, told } = createCheck(['a'], ['a'], []);
    check.start();
    await clock.advance(1_000);
    expect(absence.of(stored({ topic: 'a' }))).toBeUndefined();
    absence.failed(stored({ topic: 'a' }), NOT_THERE);
    expect(told()).toEqual({ away: ['a'], back: [] });
    expect(absence.destinations.list(clock.monotonic())).toMatchObject([{ name: 'a', putOff: 1 }]);
    absence.destinations.gotThrough(stored({ topic: 'a' }));
    expect(told().back).toEqual([['a', 1_000]]);
    expect(absence.destinations.list(clock.monotonic())).toEqual([]);
  });

  it('R6: what a message found away and a look finds there is back at once, with all that waits for it', async () => {
    const { check, clock, absence, told } = createCheck(['a'], []);
    check.start();
    await clock.advance(1_000);
    absence.failed(stored({ topic: 'a' }), NOT_THERE);
    absence.untried(stored({ topic: 'a' }), absence.of(stored({ topic: 'a' }))!);
    await clock.advance(29_000);
    expect(told().back).toHaveLength(1);
    expect(absence.freeing.isOn).toBe(true);
  });

  it('R8: what a message found missing is asked about, and is back when a look says so, though none goes there any more', async () => {
    const { check, clock, asked, questions, absence, told } = createCheck([], ['a'], ['a'], []);
    check.start();
    await clock.advance(1_000);
    absence.failed(stored({ topic: 'a', optionsJson: '{"n":1}' }), NOT_THERE);
    absence.failed(stored({ topic: 'a' }), NOT_THERE);
    await clock.advance(64_000);
    expect(asked).toEqual([0, 5_000, 35_000, 65_000]);
    expect(questions).toEqual([[], ...Array(3).fill([{ topic: 'a', options: { n: 1 } }])]);
    expect(told()).toEqual({ away: ['a'], back: [['a', 64_000]] });
    expect(absence.destinations.list(clock.monotonic())).toEqual([]);
    await clock.advance(600_000);
    expect(asked).toHaveLength(4);
  });

  it('R8: a look that does not know what a message found away says nothing of it', async () => {
    const { check, clock, asked, absence, told } = createCheck();
    check.start();
    await clock.advance(1_000);
    absence.failed(stored({ topic: 'a' }), NOT_THERE);
    await clock.advance(100_000);
    expect(absence.destinations.list(clock.monotonic())).toMatchObject([{ name: 'a' }]);
    await clock.advance(600_000);
    expect(told().back).toEqual([]);
    expect(asked.at(-1)).toBeLessThanOrEqual(240_000); // forgotten then
    expect(clock.pending).toBe(0);
  });

  it('R8: what is only suspected is not asked about', async () => {
    const { check, clock, asked, absence } = createCheck();
    check.start();
    await clock.advance(1_000);
    absence.failed(stored({ topic: 'a' }), { ...NOT_THERE, certain: false });
    await clock.advance(600_000);
    expect(asked).toEqual([0]);
  });
});
