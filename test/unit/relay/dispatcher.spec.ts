import type { OutboxOptions, PublishResult } from '../../../lib/index.js';
import { OutboxDispatcher } from '../../../lib/relay/dispatcher.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { gate, storeOf, StubStore, stored, turn } from '../../support/transport-relay.js';
import { RecordedHooks, ScriptedTransport } from '../../support/scripted.js';

function relay(given: Partial<OutboxOptions> = {}) {
  const transport = new ScriptedTransport();
  const store = new StubStore(4);
  const clock = new FakeClock();
  const hooks = new RecordedHooks();
  const made: Promise<void>[] = [];
  let building: Promise<void> = Promise.resolve();
  const dispatcher = new OutboxDispatcher({
    options: resolveOptions({ transports: { default: transport }, buckets: 4, ...given }, {}),
    store: storeOf(store),
    clock,
    random: () => 0.5,
    hooks,
    transportIds: new Map([['default', 0]]),
    createTransports: async () => {
      made.push(building);
      await building;
      return new Map([['default', transport]]);
    },
  });
  return {
    dispatcher,
    transport,
    store,
    clock,
    hooks,
    made,
    buildAfter: (other: Promise<void>): void => void (building = other),
  };
}
type Relay = ReturnType<typeof relay>;

/** Time passes in small steps, until the work is done. */
async function during<T>({ clock }: Relay, work: Promise<T>): Promise<T> {
  let done = false;
  const end = (): void => void (done = true);
  work.then(end, end);
  for (let i = 0; i < 2_000 && !done; i += 1) {
    await clock.advance(50);
    await turn();
  }
  return work;
}
const owners = ({ store }: Relay) => new Set([...store.leases.values()].map(({ owner }) => owner));

describe('the dispatcher', () => {
  it('refuses a transport that is fenced by bucket where nobody owns buckets', async () => {
    const under = relay({ coordination: 'rowLock', ordering: 'none' });
    Object.assign(under.transport, { perBucket: true });
    await expect(under.dispatcher.start()).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });

  it('a stop while it starts wins', async () => {
    const under = relay();
    const building = gate();
    under.buildAfter(building.opened);
    const started = under.dispatcher.start();
    const stopped = under.dispatcher.stop();
    building.open();
    await during(under, Promise.all([started, stopped]));
    expect(under.dispatcher.running).toBe(false);
    expect(under.clock.pending).toBe(0);
  });

  it('a start while it stops is a new life after it', async () => {
    const under = relay();
    await under.dispatcher.start();
    await under.clock.advance(100);
    const outcome = gate<PublishResult>();
    under.transport.behave = () => outcome.opened;
    under.store.ready = [stored()];
    under.dispatcher.nudge();
    await turn();
    const stopped = under.dispatcher.stop();
    const started = under.dispatcher.start();
    await turn();
    outcome.open(PUBLISHED);
    await during(under, Promise.all([stopped, started]));
    expect(under.made).toHaveLength(2);
    under.store.ready = [stored()];
    under.dispatcher.nudge();
    await under.clock.advance(100);
    await turn();
    expect(under.transport.published).toHaveLength(2);
    await during(under, under.dispatcher.stop());
    expect(under.clock.pending).toBe(0);
  });

  it('a start during a pass waits for it: reads never overlap', async () => {
    const under = relay();
    let reading = 0;
    let most = 0;
    const { fetch } = under.store;
    under.store.fetch = async (request) => {
      most = Math.max(most, (reading += 1));
      await turn();
      reading -= 1;
      return fetch(request);
    };
    under.store.ready = [stored(), stored()];
    const pass = under.dispatcher.runOnce();
    const started = under.dispatcher.start();
    await during(under, Promise.all([pass, started]));
    expect(most).toBe(1);
    expect(under.transport.published).toHaveLength(2);
    await during(under, under.dispatcher.stop());
  });

  it('a pass that fails gives its leases back', async () => {
    const under = relay();
    under.store.fetch = () => Promise.reject(new Error('away'));
    await expect(during(under, under.dispatcher.runOnce())).rejects.toThrow('away');
    expect(owners(under)).toEqual(new Set([null]));
  });

  it('a stop ends a pass that waits for a database that is away', async () => {
    const under = relay({ shutdownTimeout: '2s' });
    under.store.ready = [stored()];
    under.store.settle = () => Promise.reject(new Error('away'));
    const pass = under.dispatcher.runOnce();
    await turn();
    await during(under, under.dispatcher.stop());
    await during(under, pass);
    expect(under.transport.published).toHaveLength(1);
    expect(under.clock.monotonic()).toBeLessThan(8_000);
    expect(under.clock.pending).toBe(0);
  });

  it('a transport that hangs is torn down before the lease of what it hangs on is freed; others get the rest at once', async () => {
    const under = relay({ shutdownTimeout: '2s' });
    under.transport.behave = () => new Promise(() => undefined);
    under.store.ready = [stored()];
    await under.dispatcher.start();
    await under.clock.advance(100);
    await turn();
    const heldAtReset: number[][] = [];
    const held = (): number[] => [...under.store.leases].flatMap(([bucket, { owner }]) => (owner ? [bucket] : []));
    under.transport.reset = () => void heldAtReset.push(held());
    await during(under, under.dispatcher.stop());
    expect([heldAtReset[0], held()]).toEqual([[0], []]);
    expect(under.clock.monotonic()).toBeLessThan(8_000);
  });

  it('says that the leases were not freed when they were not', async () => {
    const under = relay({ shutdownTimeout: '1s' });
    await under.dispatcher.start();
    await under.clock.advance(100);
    under.store.giveBack = () => Promise.reject(new Error('away'));
    await during(under, under.dispatcher.stop());
    expect(under.hooks.of('stopped')).toMatchObject([{ released: false }]);
  });

  it('a drain that cannot end in time says so', async () => {
    const under = relay();
    under.transport.behave = () => new Promise(() => undefined);
    under.store.ready = [stored()];
    await expect(during(under, under.dispatcher.drain({ timeout: 1_000 }))).rejects.toMatchObject({ code: 'TIMEOUT' });
    await during(under, under.dispatcher.stop());
  });
});
