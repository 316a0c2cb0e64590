import type { OutboxMessage, OutboxTransport } from '../../../../lib/index.js';
import { Pauses } from '../../../../lib/relay/pauses/pauses.js';
import { WakeUps } from '../../../../lib/relay/wake/wake-ups.js';
import { Outage } from '../../../../lib/relay/publish/outage.js';
import { Trial } from '../../../../lib/relay/publish/trial.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/transport-parts.js';
import type { Failure } from '../../../../lib/relay/publish/batch.types.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/scripted.js';

const failure = (text: string, suspect?: 'message' | 'destination'): Failure => {
  return { ok: false, blame: 'transport', ...(suspect && { suspect }), error: new Error(text), text };
};
const [gone, late] = [failure('gone', 'message'), failure('no answer in time')];
const leaderless = failure('no leader', 'destination');
/** As the database prints it. */
const textOf = (ms: number): string => new Date(ms).toISOString().replace('T', ' ').replace('Z', '+00');
const RELEASE = { kind: 'release', alone: false } as const;

function createOutage(transport: Pick<OutboxTransport, 'destinationOf'> = {}) {
  const clock = new FakeClock();
  const hooks = new RecordedHooks();
  const trial = new Trial();
  const flight = { messages: 0, onlyOne: true };
  const reconnect = async () => undefined;
  const leases = { now: Date.now(), pauses: new Pauses(), tellNow: () => undefined };
  const retry = { maxAge: null };
  const options = { publishTimeout: 10_000, retry };
  const deps = { clock, hooks, name: 'default', random: () => 1, leases, transport, options };
  const outage = new Outage(deps as unknown as TransportRelayDependencies, { flight, trial }, new WakeUps(), reconnect);
  /** It fails alone, and after the delay a connection is there. @returns whom the failure is charged to */
  const fails = async (message: OutboxMessage): Promise<string> => {
    const { blame } = outage.charge(message, gone);
    outage.failed(gone.error, message, gone.suspect);
    await clock.advance(hooks.of('circuitOpened').at(-1)?.retryIn ?? 0);
    expect(await outage.mayRead()).toBe(true);
    return blame;
  };
  /** What becomes of it, if it is nobody's. @returns for how long it is put off */
  const putOff = (message: OutboxMessage, failure: Failure): number | undefined => {
    expect(outage.charge(message, failure).blame).toBe('transport');
    const outcome = outage.insteadOf(RELEASE, message, failure);
    if (outcome.kind === 'retry') expect(outcome.attempts).toBe(message.attempts);
    return outcome.kind === 'retry' ? outcome.delay : undefined;
  };
  const delays = (): (number | null)[] => hooks.of('circuitOpened').map(({ retryIn }) => retryIn);
  return { outage, flight, leases, clock, hooks, fails, putOff, delays, trial };
}

describe('an outage', () => {
  it('C16: a connection without a message convicts nobody, however often', async () => {
    const { outage, fails, trial } = createOutage();
    const message = stored();
    for (let i = 0; i < 10; i += 1) {
      expect(await fails(message)).toBe('transport');
      outage.probeAgain(0, 1);
      expect(outage.circuit.state).toBe('closed');
    }
    expect(trial.failsAlone(message)).toBe(false);
  });

  it('another message that got through does, three times', async () => {
    const { outage, fails } = createOutage();
    const message = stored();
    const blames: string[] = [];
    for (let i = 0; i < 4; i += 1) {
      blames.push(await fails(message));
      outage.succeeded(stored());
    }
    expect(blames).toEqual(['transport', 'transport', 'transport', 'message']);
  });

  it('C2: one that times out alone while others get through is put off from the third time on, and never charged', async () => {
    const { outage, leases, fails, putOff } = createOutage();
    const message = stored({ createdText: textOf(leases.now - 5_000) });
    for (let i = 0; i < 3; i += 1) {
      expect(putOff(message, late)).toBeUndefined();
      await fails(message);
      outage.succeeded(stored());
    }
    for (let i = 0; i < 10; i += 1) expect(putOff(message, late)).toBe(5_000);
    outage.succeeded(message);
    expect(putOff(message, late)).toBeUndefined();
  });

  it('C16: destinations that are all away are an outage, noticed after fifty messages', () => {
    const { outage, flight, putOff } = createOutage();
    flight.onlyOne = false;
    for (let i = 0; i < 1_000; i += 1) outage.succeeded(stored());
    const delays = Array.from({ length: 60 }, () => putOff(stored(), leaderless));
    expect(delays.filter((delay) => delay !== undefined)).toHaveLength(50);
    expect(delays.at(-1)).toBeUndefined();
  });

  it('C2: probes to a destination that is away make way for the next ones, for a while, and prove nothing', async () => {
    const { outage, clock, fails, putOff, delays } = createOutage();
    await fails(stored());
    expect(outage.probing).toBe(true);
    for (let i = 0; i < 50; i += 1) {
      expect(putOff(stored(), leaderless)).toBeGreaterThan(0);
      expect(outage.circuit.allows).toBe('none');
      await clock.advance(10);
      expect(outage.probing).toBe(true);
    }
    await fails(stored());
    expect(delays()).toEqual([500, 1_000]);
  });

  describe('M1: of a destination that has a name', () => {
    const named = (destination: string): Failure => ({ ...leaderless, destination });

    it('any number of messages are put off once others got through, and the circuit stays closed', () => {
      const { outage, flight, putOff } = createOutage({ destinationOf: ({ topic }) => topic });
      flight.onlyOne = false;
      for (let i = 0; i < 50; i += 1) outage.succeeded(stored());
      expect(putOff(stored(), named('away'))).toBeGreaterThan(0);
      outage.succeeded(stored({ topic: 'there' }));
      for (let i = 0; i < 1_000; i += 1) expect(putOff(stored(), named('away'))).toBeGreaterThan(0);
      expect(outage.circuit.state).toBe('closed');
    });

    it('is told with its name until one of its messages gets through, and is tried less and less often', async () => {
      const { outage, clock, putOff } = createOutage({ destinationOf: ({ topic }) => topic });
      for (let i = 0; i < 50; i += 1) outage.succeeded(stored());
      const away = () => outage.destinations.list(clock.monotonic());
      expect(putOff(stored({ topic: 'a' }), named('a'))).toBe(1_000);
      await clock.advance(20_000);
      expect(putOff(stored({ topic: 'a' }), named('a'))).toBe(2_000);
      outage.succeeded(stored({ topic: 'b' }));
      expect(away()).toEqual([
        { name: 'a', awayFor: 20_000, putOff: 2, topics: ['a'], error: expect.stringContaining('no leader') },
      ]);
      expect(outage.isTroubled).toBe(true);
      outage.succeeded(stored({ topic: 'a' }));
      expect(away()).toEqual([]);
      expect(putOff(stored({ topic: 'a' }), named('a'))).toBe(1_000);
      await clock.advance(200_000);
      expect(away()).toEqual([]); // nobody asked for so long
    });
  });

  it('C4: a broker that asks to wait during a probe is believed, whatever it confirms meanwhile', async () => {
    const { outage, hooks, fails } = createOutage();
    await fails(stored());
    outage.transportState('blocked', 'memory alarm');
    outage.succeeded(stored());
    expect(outage.probeAgain(0, 1)).toBe(true); // its read was under way
    expect(outage.circuit.state).toBe('blocked');
    expect(hooks.of('circuitClosed')).toHaveLength(0);
    outage.transportState('up', undefined);
    expect(outage.circuit.state).toBe('closed');
    expect(hooks.of('circuitClosed')).toHaveLength(1);
    outage.transportState('blocked', 'memory alarm');
    outage.transportState('up', undefined);
    expect(hooks.of('circuitClosed')).toHaveLength(1); // nobody was told that it opened
  });

  it('tells the text of a failure, and not its error, when the probe that fails is put off', async () => {
    const { outage, hooks, fails, putOff } = createOutage();
    const message = stored();
    for (let i = 0; i < 3; i += 1) {
      await fails(message);
      outage.succeeded(stored());
    }
    await fails(stored());
    expect(putOff(message, { ...late, error: new Error('canary'), text: 'refused' })).toBeGreaterThan(0);
    expect(hooks.of('circuitOpened').at(-1)?.error).toContain('refused');
    expect(JSON.stringify(hooks.of('circuitOpened'))).not.toContain('canary');
    expect(String(outage.circuit.lastError)).not.toContain('canary');
  });

  it('C2: what is put off waits about as long again as the message is old, between a second and a minute', () => {
    const { outage, leases, putOff } = createOutage();
    for (let i = 0; i < 50; i += 1) outage.succeeded(stored());
    const after = (age: number) => putOff(stored({ createdText: textOf(leases.now - age) }), leaderless);
    expect([0, 500, 2_000, 59_000, 3_600_000].map(after)).toEqual([1_000, 1_000, 2_000, 59_000, 60_000]);
    expect(putOff(stored({ createdText: 'infinity' }), leaderless)).toBe(1_000);
  });
});
