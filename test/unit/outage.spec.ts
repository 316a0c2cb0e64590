import { Outage, type OutageLane } from '../../lib/dispatch/outage.js';
import type { LaneDependencies } from '../../lib/dispatch/lane.types.js';
import type { OutboxMessage } from '../../lib/message.js';
import type { PublishFailure } from '../../lib/publish/transport.js';
import { FakeClock } from '../../lib/testing/fake-clock.js';
import { stored } from '../support/lane.js';
import { RecordedHooks } from '../support/relay.js';

const gone: PublishFailure = { ok: false, blame: 'transport', error: new Error('gone') };

function createOutage() {
  const clock = new FakeClock();
  const hooks = new RecordedHooks();
  const lane: OutageLane = {
    giveUpWaiting: () => undefined,
    reconnect: async () => undefined,
    unresolved: 0,
    onlyOne: true,
    markAlone: () => undefined,
    wanted: () => undefined,
  };
  const outage = new Outage(lane, { clock, hooks, name: 'default', random: () => 1 } as unknown as LaneDependencies);
  /** It fails alone, and after the delay a connection is there. @returns whom the failure is charged to */
  const fails = async (message: OutboxMessage): Promise<string> => {
    const { blame } = outage.charge(message, gone);
    outage.failed(gone.error, message);
    await clock.advance(hooks.of('circuitOpened').at(-1)?.retryIn ?? 0);
    expect(await outage.mayRead()).toBe(true);
    return blame;
  };
  const delays = (): (number | null)[] => hooks.of('circuitOpened').map(({ retryIn }) => retryIn);
  return { outage, clock, fails, delays };
}

describe('an outage', () => {
  it('C16: a connection without a message convicts nobody, however often', async () => {
    const { outage, fails } = createOutage();
    const message = stored();
    for (let i = 0; i < 10; i += 1) {
      expect(await fails(message)).toBe('transport');
      outage.probeAgain(0, 1);
      expect(outage.circuit.state).toBe('closed');
    }
    expect(outage.suspects.size).toBe(0);
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

  it('its own success acquits it', async () => {
    const { outage, fails } = createOutage();
    const message = stored();
    for (let i = 0; i < 2; i += 1) {
      await fails(message);
      outage.succeeded(stored());
    }
    await fails(message);
    outage.succeeded(message);
    for (let i = 0; i < 3; i += 1) {
      expect(await fails(message)).toBe('transport');
      outage.succeeded(stored());
    }
  });

  it('waits longer and longer while nothing but connections get through', async () => {
    const { outage, fails, delays } = createOutage();
    for (let i = 0; i < 8; i += 1) {
      await fails(stored());
      outage.probeAgain(0, 1);
    }
    expect(delays()).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  });

  it('starts from the shortest delay after a message, and after a while without a failure', async () => {
    const { outage, clock, fails, delays } = createOutage();
    await fails(stored());
    outage.probeAgain(0, 1);
    expect(outage.circuit.isTroubled).toBe(true);
    outage.succeeded(stored());
    expect(outage.circuit.isTroubled).toBe(false);
    await fails(stored());
    outage.probeAgain(0, 1);
    await clock.advance(31_000);
    await fails(stored());
    expect(delays()).toEqual([500, 500, 500]);
  });
});
