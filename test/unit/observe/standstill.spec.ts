import { PUBLISHED, type PublishResult } from '../../../lib/transports/transport.js';
import {
  createTransportRelay,
  gate,
  leased,
  stored,
  turn,
  type RelayUnderTest,
} from '../../support/transport-relay.js';
import { ScriptedTransport } from '../../support/scripted.js';

const away = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('away') });

/** Nobody listens: a probe ends with its connection. */
class Unreachable extends ScriptedTransport {
  isThere = true;
  override async connect(): Promise<void> {
    if (!this.isThere) throw new Error('connection refused');
  }
}

async function start(transport: ScriptedTransport = new Unreachable()): Promise<RelayUnderTest> {
  return leased(createTransportRelay({}, transport));
}
const idle = ({ store }: RelayUnderTest): number[] =>
  [...store.leases].flatMap(([bucket, { epoch, idleEpoch }]) => (idleEpoch === epoch ? [bucket] : []));

/** One message failed, and nobody listens any more. */
async function outage(under: RelayUnderTest): Promise<void> {
  const { relay, store, transport } = under;
  store.ready = [stored()];
  transport.behave = away;
  if (transport instanceof Unreachable) transport.isThere = false;
  await relay.readOnce();
  await turn();
  expect(relay.outage.circuit.state).toBe('open');
}

describe('while the circuit is open', () => {
  it('O5: the leases say that nothing of them goes out, through all probes that get no connection', async () => {
    const under = await start();
    await outage(under);
    const noted = jest.spyOn(under.store, 'noteIdle');
    under.loops.start();
    for (let n = 0; n < 60; n += 1) await under.clock.advance(1_000);
    expect(under.relay.outage.probes).toBeGreaterThan(3);
    expect([idle(under), noted.mock.calls.length]).toEqual([[0, 1, 2, 3], 1]);
  });

  it('O5: nothing is read before they say so no longer', async () => {
    const under = await start();
    const { relay, store, transport } = under;
    await outage(under);
    await relay.readOnce();
    expect(idle(under)).toHaveLength(4);
    transport.behave = () => PUBLISHED;
    (transport as Unreachable).isThere = true;
    const [{ noteIdle }, held] = [store, gate()];
    const fetch = jest.spyOn(store, 'fetch');
    store.noteIdle = async (...args) => {
      await held.opened;
      return noteIdle(...args);
    };
    relay.outage.startProbe();
    const read = relay.readOnce();
    await turn();
    expect(fetch).not.toHaveBeenCalled();
    held.open();
    await read;
    await turn();
    expect([idle(under), transport.published.length]).toEqual([[], 1]);
  });

  it('O5: nothing is read while that fails', async () => {
    const under = await start();
    const { relay, store, transport } = under;
    await outage(under);
    await relay.readOnce();
    const { noteIdle } = store;
    store.noteIdle = () => Promise.reject(new Error('away, too'));
    (transport as Unreachable).isThere = true;
    transport.behave = () => PUBLISHED;
    relay.outage.startProbe();
    const fetch = jest.spyOn(store, 'fetch');
    for (let n = 0; n < 2; n += 1) await expect(relay.readOnce()).rejects.toThrow('away, too');
    expect(fetch).not.toHaveBeenCalled();
    store.noteIdle = noteIdle;
    await relay.readOnce();
    await turn();
    expect(transport.published).toHaveLength(1);
  });

  it('O5: they say nothing while a message is out, or what became of it is not written', async () => {
    const under = await start(new ScriptedTransport());
    const { relay, store, transport } = under;
    const [answer, written] = [gate<PublishResult>(), gate()];
    const { settle } = store;
    store.settle = async (...args) => {
      await written.opened;
      return settle(...args);
    };
    store.ready = [stored({ key: 'slow' })];
    transport.behave = () => answer.opened;
    await relay.readOnce();
    transport.onState?.('down', new Error('gone'));
    await relay.readOnce();
    expect([relay.flight.messages, idle(under)]).toEqual([1, []]);
    answer.open(PUBLISHED);
    await turn();
    await relay.readOnce();
    expect([relay.flight.messages, idle(under)]).toEqual([0, []]);
    written.open();
    await turn();
    await relay.readOnce();
    expect([relay.outage.circuit.state, store.ready, idle(under)]).toEqual(['open', [], [0, 1, 2, 3]]);
  });

  it('O5: they say nothing while a message is in memory that was read when the circuit opened', async () => {
    const under = await start();
    const { relay, store, transport } = under;
    const [{ fetch }, held] = [store, gate()];
    store.fetch = async (request) => {
      const found = await fetch(request);
      await held.opened;
      return found;
    };
    store.ready = [stored({ key: 'a' })];
    const read = relay.readOnce();
    await turn();
    (transport as Unreachable).isThere = false;
    transport.onState?.('down', new Error('gone'));
    held.open();
    await read;
    await relay.readOnce();
    expect([relay.outage.circuit.state, relay.room.held, idle(under)]).toEqual(['open', 1, []]);
    relay.outage.startProbe();
    await relay.readOnce(); // sends it, gets no connection, and gives it back
    await turn();
    await relay.readOnce();
    expect([relay.room.held, idle(under)]).toEqual([0, [0, 1, 2, 3]]);
  });

  it('O5: buckets that come meanwhile say so, too; those that are ours again say it under their new epoch', async () => {
    const under = await start();
    const { relay, leases, store } = under;
    await outage(under);
    await relay.readOnce();
    for (const bucket of [1, 2]) Object.assign(store.leases.get(bucket) as object, { owner: null });
    leases.renewedAt = -Infinity;
    await leases.runOnce();
    expect(idle(under)).toEqual([0, 3]);
    await relay.readOnce();
    expect(idle(under)).toEqual([0, 1, 2, 3]);
  });

  it('O5: a word that may still arrive is void: its buckets are given back, and the next one comes later', async () => {
    const under = await start();
    const { clock, hooks, relay, leases, loops, store } = under;
    await outage(under);
    const { noteIdle } = store;
    const epochs = (): bigint[] => [...store.leases.values()].map(({ epoch }) => epoch);
    let arrives: () => Promise<void> = async () => undefined;
    store.noteIdle = (...args) => {
      arrives = () => noteIdle(...args);
      return Promise.reject(new Error('connection lost'));
    };
    const before = epochs();
    await relay.readOnce();
    await turn();
    store.noteIdle = noteIdle;
    await leases.runOnce();
    await relay.readOnce();
    await arrives();
    expect(idle(under)).toEqual([]);
    expect(epochs()).toEqual(before.map((epoch) => epoch + 1n));
    expect(hooks.of('error').map(({ operation }) => operation)).toEqual(['lease']);
    loops.start();
    for (let seconds = 0; seconds < 60; seconds += 1) {
      await clock.advance(1_000);
      await leases.runOnce();
    }
    expect(idle(under)).toHaveLength(4);
  });

  it('O5: another server is told once more that it is over', async () => {
    const under = await start();
    const { relay, store, transport } = under;
    await outage(under);
    await relay.readOnce();
    (transport as Unreachable).isThere = true;
    transport.behave = () => PUBLISHED;
    relay.outage.startProbe();
    await relay.readOnce();
    await turn();
    expect([relay.outage.circuit.state, idle(under)]).toEqual(['closed', []]);
    for (const lease of store.leases.values()) lease.idleEpoch = lease.epoch; // it never heard of it
    store.session += 1;
    store.ready = [stored()];
    await relay.readOnce();
    expect(idle(under)).toHaveLength(4);
    await relay.readOnce();
    await turn();
    expect([idle(under), transport.published.length]).toEqual([[], 2]);
  });

  it('O5: a broker that asks to wait is an open circuit, too', async () => {
    const under = await start();
    under.transport.onState?.('blocked', 'memory alarm');
    await under.relay.readOnce();
    expect(idle(under)).toHaveLength(4);
    under.transport.onState?.('up', undefined);
    await under.relay.readOnce();
    expect(idle(under)).toEqual([]);
  });
});
