import type { ExpectedMessages, MissingDestination } from '../../../../lib/index.js';
import { Pauses } from '../../../../lib/relay/pauses/pauses.js';
import { FirstConnection } from '../../../../lib/relay/publish/first-connection.js';
import { Outage } from '../../../../lib/relay/publish/outage.js';
import { Trial } from '../../../../lib/relay/publish/trial.js';
import { WakeUps } from '../../../../lib/relay/wake/wake-ups.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/transport-parts.js';
import type { Failure } from '../../../../lib/relay/publish/batch.types.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/scripted.js';

type Answer = readonly string[] | Error | 'nothing';

function createConnection(...answers: Answer[]) {
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
  const transport = { findMissing, destinationOf: ({ topic = '' }) => topic };
  const options = { publishTimeout: 10_000, retry: { maxAge: null }, transports: new Map() };
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
  const ledger = { flight: { messages: 0, onlyOne: false }, trial: new Trial() };
  const outage = new Outage(deps, ledger, new WakeUps(), async () => undefined);
  const { destinations } = outage;
  const publisher = { connected: true, open: async () => undefined };
  const connection = new FirstConnection(publisher, outage, deps);
  const told = () => ({
    away: hooks.of('destinationAway').map(({ destination }) => destination),
    back: hooks.of('destinationBack').map(({ destination, awayFor }) => [destination, awayFor]),
  });
  return { connection, transport, clock, hooks, asked, questions, signals, destinations, publisher, told };
}

/** There is no such destination, for certain. */
const NOT_THERE: Failure = {
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
    const { connection, transport, clock, asked, publisher } = createConnection([]);
    Object.assign(transport, { connect: async () => undefined });
    publisher.connected = false;
    connection.start();
    await clock.advance(60_000);
    expect(asked).toEqual([]);
    publisher.connected = true; // by a probe
    await clock.advance(600_000);
    expect(asked).toEqual([65_000]);
  });

  it('R6: is had again every half minute while one is missing, and each news is told once', async () => {
    const { connection, clock, asked, destinations, told } = createConnection(['a', 'b'], ['b', 'a'], ['b'], []);
    connection.start();
    await clock.advance(30_000);
    expect(told()).toEqual({ away: ['a', 'b'], back: [] });
    expect(destinations.list(clock.monotonic())).toEqual([
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
    const { connection, clock, asked, told } = createConnection(
      new Error('connection lost'),
      ['a'],
      new Error('again'),
      ['a'],
    );
    connection.start();
    await clock.advance(90_000);
    expect(asked).toEqual([0, 30_000, 60_000, 90_000]);
    expect(told()).toEqual({ away: ['a'], back: [] });
  });

  it('R6: one that hangs is given up in time, and there is never a second one beside it', async () => {
    const { connection, clock, asked, signals } = createConnection('nothing');
    connection.start();
    await clock.advance(9_999);
    expect(signals[0]?.aborted).toBe(false);
    await clock.advance(1);
    expect(signals[0]?.aborted).toBe(true);
    await clock.advance(600_000);
    expect(asked).toEqual([0]);
  });

  it('R6: puts nothing off, and a message that fails or gets through there later is no second news', async () => {
    const { connection, clock, destinations, told } = createConnection(['a'], ['a'], []);
    connection.start();
    await clock.advance(1_000);
    expect(destinations.of(stored({ topic: 'a' }))).toBeUndefined();
    destinations.failed(stored({ topic: 'a' }), NOT_THERE);
    expect(told()).toEqual({ away: ['a'], back: [] });
    expect(destinations.list(clock.monotonic())).toMatchObject([{ name: 'a', putOff: 1 }]);
    destinations.gotThrough(stored({ topic: 'a' }));
    expect(told().back).toEqual([['a', 1_000]]);
    expect(destinations.list(clock.monotonic())).toEqual([]);
  });

  it('R8: a look that does not know what a message found away says nothing of it', async () => {
    const { connection, clock, asked, destinations, told } = createConnection();
    connection.start();
    await clock.advance(1_000);
    destinations.failed(stored({ topic: 'a' }), NOT_THERE);
    await clock.advance(100_000);
    expect(destinations.list(clock.monotonic())).toMatchObject([{ name: 'a' }]);
    await clock.advance(600_000);
    expect(told().back).toEqual([]);
    expect(asked.at(-1)).toBeLessThanOrEqual(240_000); // forgotten then
  });
});
