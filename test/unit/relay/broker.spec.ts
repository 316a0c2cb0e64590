import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createTransportRelay, leased, stored, turn } from '../../support/transport-relay.js';
import { ScriptedTransport } from '../../support/scripted.js';

const down = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('gone') });
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe('a relay and its broker', () => {
  it('goes on at once when a broker that asked to wait is ready again', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    relay.wakeUps.wake({ within: () => void relay.readOnce() }, { within: () => undefined });
    relay.outage.transportState('blocked', 'memory alarm');
    relay.accept([stored()]);
    await turn();
    expect(transport.attempted).toEqual([]);
    expect(store.ready).toEqual([]);
    relay.outage.transportState('up');
    await turn();
    expect(transport.published).toHaveLength(1);
  });

  it('keeps nothing of a run that failed after its lease was lost', async () => {
    const under = await leased(createTransportRelay({}, new ScriptedTransport({ atomicRuns: true })));
    const { relay, transport } = under;
    const failures: (() => void)[] = [];
    transport.behave = () => new Promise((resolve) => failures.push(() => resolve(down())));
    const messages = Array.from({ length: 5 }, () => stored({ key: 'a run' }));
    relay.accept(messages);
    await turn();
    relay.lost([0]);
    const orphans = () => messages.filter(({ state }) => state === 'orphan');
    expect(orphans()).toHaveLength(5);
    for (const fail of failures) fail();
    await turn();
    expect([orphans(), relay.room.held]).toEqual([[], 0]);
  });

  it('a message that must go alone gets its turn under a load that never ends', async () => {
    const under = await leased(createTransportRelay({ batchSize: 10 }));
    const { relay, transport } = under;
    const open: (() => void)[] = [];
    transport.behave = () => new Promise((resolve) => open.push(() => resolve(PUBLISHED)));
    const single = stored({ key: 'single' });
    relay.trial.markAlone(single);
    relay.accept(Array.from({ length: 10 }, () => stored()));
    await turn();
    relay.accept([single]);
    for (let i = 0; i < 20 && !transport.attempted.includes(single); i += 1) {
      relay.accept(Array.from({ length: 10 }, () => stored()));
      await turn();
      for (const finish of open.splice(0, 10)) finish();
      await turn();
    }
    expect(transport.attempted).toContain(single);
  });

  it('a message that fails as a neighbour although it is alone is no neighbour: the circuit opens', async () => {
    const under = await leased(createTransportRelay());
    const { relay, transport } = under;
    transport.behave = async () => {
      await new Promise((resolve) => setImmediate(resolve)); // a broker takes its time
      return { ok: false, blame: 'collateral', error: new Error('channel closed') };
    };
    relay.accept([stored()]);
    await turn();
    await turn();
    await turn();
    expect(transport.attempted.length).toBeLessThan(4);
    expect(relay.outage.circuit.state).toBe('open');
  });

  it('the last message of a batch that failed as a whole is no suspect', async () => {
    const under = await leased(createTransportRelay());
    const { relay, transport } = under;
    transport.behave = down;
    relay.accept([stored(), stored(), stored()]);
    await turn();
    expect(relay.outage.circuit.state).toBe('open');
    expect(relay.trial.failed?.id).toBeUndefined();
  });
});

describe('a relay and its parked messages', () => {
  it('takes no more rows at once than one batch, however many keys can go on', async () => {
    const under = await leased(createTransportRelay({ batchSize: 200 }));
    const { relay, store } = under;
    await relay.readOnce();
    for (let k = 0; k < 400; k += 1) relay.parked.continueKey(0, `k${k}`);
    let most = 0;
    store.take = async ({ due, keys, perKey }) => {
      most = Math.max(most, due.length + keys.length * perKey);
      return { messages: [], clear: [...keys], durable: true };
    };
    for (let i = 0; i < 5; i += 1) await relay.parkedOnce();
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(200);
  });

  it('remembers a key that fails although more keys are blocked than fit into memory', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    store.park = () => new Promise(() => undefined);
    Object.assign(relay.parked.keys, { limit: 2 });
    for (const key of ['x', 'y', 'z']) relay.parked.keys.add(0, key);
    transport.behave = rejected;
    relay.accept([stored({ key: 'a' })]);
    await turn();
    transport.behave = () => PUBLISHED;
    store.ready = [stored({ key: 'a' })];
    await relay.readOnce();
    await turn();
    expect(transport.attempted).toHaveLength(1);
  });
});

describe('a pass', () => {
  it('ends although a message fails again and again and is due again at once', async () => {
    const under = await leased(createTransportRelay());
    const { loops, store, transport } = under;
    transport.behave = rejected;
    let attempts = 0;
    store.due = async () => {
      await turn(); // a database takes its time
      return { rows: [{ parkedId: '1', bucket: 0, key: null, state: 'waiting' }], nextIn: 0 };
    };
    store.take = async () => ({
      messages: [stored({ parkedId: '1', parkedState: 'waiting', attempts: (attempts += 1) })],
      clear: [],
      durable: true,
    });
    const ended = await Promise.race([loops.runPass(), turns(200)]);
    expect(ended).toMatchObject({ published: 0, dead: 0 });
  });

  it('reads on after a new connection made it start over', async () => {
    const under = await leased(createTransportRelay());
    const { loops, store, transport } = under;
    await loops.runPass();
    store.session = 1;
    store.ready = [stored()];
    await expect(loops.runPass()).resolves.toMatchObject({ published: 1 });
    expect(transport.published).toHaveLength(1);
  });
});

async function turns(count: number): Promise<string> {
  for (let i = 0; i < count; i += 1) await turn();
  return 'still running';
}
