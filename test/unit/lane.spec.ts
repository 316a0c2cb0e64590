import type { OutboxMessage } from '../../lib/message.js';
import { PUBLISHED, type PublishResult } from '../../lib/publish/transport.js';
import { createLane, gate, stored, turn, type LaneUnderTest } from '../support/lane.js';
import { ScriptedTransport } from '../support/relay.js';

const down = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('gone') });
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });
const seqs = (messages: readonly OutboxMessage[]) => messages.map(({ seq }) => seq);

async function leased(lane: LaneUnderTest): Promise<LaneUnderTest> {
  await lane.leases.runOnce();
  await lane.lane.openBuckets();
  return lane;
}
/** As after a pause that was longer than the lease: all lost, and all acquired again under new epochs. */
async function loseAndRegain({ leases, store }: LaneUnderTest): Promise<void> {
  for (const lease of store.leases.values()) lease.owner = null;
  leases.renewedAt = -Infinity;
  await leases.runOnce();
}

describe('a lane and its leases', () => {
  it('forgets what was read when the lease is lost while the read is made durable, and reads it again later', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    store.ready = [stored({ key: 'a' })];
    const flushing = gate();
    const { fetch } = store;
    store.fetch = async (request) => ({ ...(await fetch(request)), durable: false });
    store.flush = () => flushing.opened;
    const read = lane.readOnce();
    await turn();
    await loseAndRegain(under);
    flushing.open();
    await read;
    store.flush = async () => undefined;
    await lane.readOnce();
    await turn();
    expect(transport.published).toHaveLength(1);
    expect(lane.room.held).toBe(0);
    expect(lane.claimer.known.size).toBe(0);
  });

  it('a bucket that is lost and leased again during a read is read from its start', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    transport.behave = () => new Promise(() => undefined);
    const first = stored({ key: 'a' });
    const blocker = stored({ key: 'a' });
    store.ready = [first, blocker];
    await lane.readOnce(); // `first` is out, `blocker` waits behind it
    await turn();
    const fetching = gate();
    const { fetch } = store;
    store.fetch = async (request) => {
      const result = await fetch(request);
      await fetching.opened;
      return result;
    };
    store.ready.push(stored({ key: 'b' }));
    const read = lane.readOnce();
    await turn();
    await loseAndRegain(under);
    store.fetch = fetch;
    await lane.parkedOnce(); // opens the buckets again
    fetching.open();
    await read;
    await lane.readOnce();
    expect(lane.claimer.known).toEqual(new Set(store.ready.map(({ seq }) => seq)));
  });

  it('what was taken from the parked table under a lease that is gone is not published', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    await lane.readOnce();
    const taking = gate();
    store.due = async () => ({ rows: [{ parkedId: '1', bucket: 0, key: null, state: 'waiting' }], nextIn: null });
    store.take = async () => {
      await taking.opened;
      return { messages: [stored({ parkedId: '1', parkedState: 'waiting' })], clear: [], durable: true };
    };
    const taken = lane.parkedOnce();
    await turn();
    await loseAndRegain(under);
    await lane.readOnce();
    taking.open();
    await taken;
    await turn();
    expect(transport.attempted).toEqual([]);
    expect(lane.room.held).toBe(0);
  });

  it('gives buckets back when the answer to a take was lost: rows may be marked as sent under this epoch', async () => {
    const under = await leased(createLane());
    const { lane, store, leases } = under;
    await lane.readOnce();
    const before = leases.lease(0, 1)?.epoch;
    store.due = async () => ({ rows: [{ parkedId: '1', bucket: 1, key: null, state: 'waiting' }], nextIn: null });
    store.take = () => Promise.reject(new Error('connection lost'));
    await expect(lane.parkedOnce()).rejects.toThrow('connection lost');
    await turn();
    expect(leases.lease(0, 1)).toBeUndefined();
    expect(leases.lease(0, 0)).toBeDefined();
    await leases.runOnce();
    expect(BigInt(leases.lease(0, 1)?.epoch as string)).toBeGreaterThan(BigInt(before as string));
  });

  it('a message whose lease was lost while it was out is left to the new owner when it fails', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    const outcome = gate<PublishResult>();
    transport.behave = () => outcome.opened;
    store.ready = [stored({ key: 'a' }), stored({ key: 'a' })];
    await lane.readOnce();
    await turn();
    for (const lease of store.leases.values()) lease.owner = 'somebody else';
    under.leases.renewedAt = -Infinity;
    await under.leases.runOnce();
    outcome.open({ ok: false, blame: 'collateral', error: new Error('channel closed') });
    await turn();
    expect(lane.room.held).toBe(0);
    expect(lane.queues.readyCount).toBe(0);
    expect(lane.claimer.known.size).toBe(0);
  });
});

describe('a lane and its order', () => {
  it('drops a read that was made before a rewind: what was given back comes first', async () => {
    const under = await leased(createLane());
    const { lane, store, transport, clock } = under;
    const outcome = gate<PublishResult>();
    transport.behave = () => outcome.opened;
    const [first, second] = [stored({ key: 'a' }), stored({ key: 'a' })];
    store.ready = [first];
    await lane.readOnce();
    await turn();
    store.ready.push(second);
    const flushing = gate();
    const { fetch } = store;
    store.fetch = async (request) => ({ ...(await fetch(request)), durable: false });
    store.flush = () => flushing.opened;
    const read = lane.readOnce();
    await turn();
    outcome.open(down());
    await turn();
    flushing.open();
    await read;
    transport.behave = () => PUBLISHED;
    await clock.advance(1_000);
    for (let i = 0; i < 8; i += 1) {
      await lane.readOnce();
      await turn();
    }
    expect(seqs(transport.published)).toEqual([first.seq, second.seq]);
  });

  it('a global order holds what a read under way returns after a failure', async () => {
    const under = await leased(createLane({ ordering: 'global' }));
    const { lane, store, transport } = under;
    const outcome = gate<PublishResult>();
    transport.behave = (message) => (message.seq === first.seq ? outcome.opened : PUBLISHED);
    const [first, second] = [stored(), stored()];
    store.ready = [first];
    await lane.readOnce();
    await turn();
    store.ready.push(second);
    const fetching = gate();
    const { fetch } = store;
    store.fetch = async (request) => {
      const result = await fetch(request);
      await fetching.opened;
      return result;
    };
    const read = lane.readOnce();
    await turn();
    store.hasBlocking = async () => true;
    outcome.open(rejected());
    await turn();
    fetching.open();
    await read;
    await turn();
    expect(seqs(transport.attempted)).toEqual([first.seq]);
  });

  it('a global order that is held finds out that the broker is back', async () => {
    const under = await leased(createLane({ ordering: 'global' }));
    const { lane, store, transport, clock } = under;
    store.ready = [stored()];
    transport.behave = rejected;
    await lane.readOnce();
    await turn();
    store.hasBlocking = async () => true;
    const parked = stored({ parkedId: '1', parkedState: 'waiting' });
    store.due = async () => ({ rows: [{ parkedId: '1', bucket: 0, key: null, state: 'waiting' }], nextIn: null });
    store.take = async () => ({ messages: [parked], clear: [], durable: true });
    transport.behave = down;
    await lane.parkedOnce();
    await turn();
    expect(lane.outage.circuit.state).toBe('open');
    transport.behave = () => PUBLISHED;
    await clock.advance(1_000);
    for (let i = 0; i < 3; i += 1) {
      await lane.readOnce();
      await lane.parkedOnce();
      await turn();
    }
    expect(transport.published.map(({ parkedId }) => parkedId)).toContain('1');
  });
});

describe('a lane and its broker', () => {
  it('goes on at once when a broker that asked to wait is ready again', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    lane.wanted = (what) => void (what === 'read' && lane.readOnce());
    transport.onState?.('blocked', 'memory alarm');
    lane.accept([stored()]);
    await turn();
    expect(transport.attempted).toEqual([]);
    expect(store.ready).toEqual([]);
    transport.onState?.('up');
    await turn();
    expect(transport.published).toHaveLength(1);
  });

  it('a message that must go alone gets its turn under a load that never ends', async () => {
    const under = await leased(createLane({ batchSize: 10 }));
    const { lane, transport } = under;
    const open: (() => void)[] = [];
    transport.behave = () => new Promise((resolve) => open.push(() => resolve(PUBLISHED)));
    const single = stored({ key: 'single' });
    lane.markAlone(single);
    lane.accept(Array.from({ length: 10 }, () => stored()));
    await turn();
    lane.accept([single]);
    for (let i = 0; i < 20 && !transport.attempted.includes(single); i += 1) {
      lane.accept(Array.from({ length: 10 }, () => stored()));
      await turn();
      for (const finish of open.splice(0, 10)) finish();
      await turn();
    }
    expect(transport.attempted).toContain(single);
  });

  it('a message that fails as a neighbour although it is alone is no neighbour: the circuit opens', async () => {
    const under = await leased(createLane());
    const { lane, transport } = under;
    transport.behave = async () => {
      await new Promise((resolve) => setImmediate(resolve)); // a broker takes its time
      return { ok: false, blame: 'collateral', error: new Error('channel closed') };
    };
    lane.accept([stored()]);
    await turn();
    await turn();
    await turn();
    expect(transport.attempted.length).toBeLessThan(4);
    expect(lane.outage.circuit.state).toBe('open');
  });

  it('the last message of a batch that failed as a whole is no suspect', async () => {
    const under = await leased(createLane());
    const { lane, transport } = under;
    transport.behave = down;
    lane.accept([stored(), stored(), stored()]);
    await turn();
    expect(lane.outage.circuit.state).toBe('open');
    expect(lane.outage.failedAlone).toBeUndefined();
  });

  it('one that was the only one out is', async () => {
    const under = await leased(createLane());
    const { lane, transport } = under;
    transport.behave = down;
    const only = stored();
    lane.accept([only]);
    await turn();
    expect(lane.outage.failedAlone).toBe(only.id);
  });

  it('survives message options that are no JSON', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    const parked: unknown[] = [];
    store.park = async (_owner, _leases, entries) => {
      parked.push(...entries);
      return { fence: undefined, affected: entries.length };
    };
    transport.behave = rejected;
    lane.accept([stored({ optionsJson: '{odd' })]);
    await turn();
    expect(parked).toMatchObject([{ state: 'waiting', attempts: 1 }]);
    expect(lane.handOver.inFlight.size).toBe(0);
  });
});

describe('a lane and its parked messages', () => {
  it('goes on with a key at once when its first parked message died without blocking it', async () => {
    const under = await leased(createLane({ retry: { maxAttempts: 1 }, onDead: 'skip' }));
    const { lane, transport } = under;
    transport.behave = rejected;
    await lane.readOnce();
    lane.parked.keys.add(0, 'k');
    lane.accept([stored({ key: 'k', parkedId: '1', parkedState: 'waiting' })]);
    await turn();
    expect([...lane.parked.toContinue.keys()]).toEqual(['k']);
  });

  it('takes no more rows at once than one batch, however many keys can go on', async () => {
    const under = await leased(createLane({ batchSize: 200 }));
    const { lane, store } = under;
    await lane.readOnce();
    for (let k = 0; k < 400; k += 1) lane.parked.continueKey(0, `k${k}`);
    let most = 0;
    store.take = async ({ due, keys, perKey }) => {
      most = Math.max(most, due.length + keys.length * perKey);
      return { messages: [], clear: [...keys], durable: true };
    };
    for (let i = 0; i < 5; i += 1) await lane.parkedOnce();
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(200);
  });

  it('remembers a key that fails although more keys are blocked than fit into memory', async () => {
    const under = await leased(createLane());
    const { lane, store, transport } = under;
    store.park = () => new Promise(() => undefined);
    Object.assign(lane.parked.keys, { limit: 2 });
    for (const key of ['x', 'y', 'z']) lane.parked.keys.add(0, key);
    transport.behave = rejected;
    lane.accept([stored({ key: 'a' })]);
    await turn();
    transport.behave = () => PUBLISHED;
    store.ready = [stored({ key: 'a' })];
    await lane.readOnce();
    await turn();
    expect(transport.attempted).toHaveLength(1);
  });
});

describe('a pass', () => {
  it('ends although a message fails again and again and is due again at once', async () => {
    const under = await leased(createLane());
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
    const under = await leased(createLane());
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

describe('what a transport says', () => {
  it('a result that is none counts as an outage of the transport, not as nothing', async () => {
    class Sloppy extends ScriptedTransport {
      override async publish(batch: readonly OutboxMessage[]): Promise<never> {
        return batch.map(() => undefined) as never;
      }
    }
    const under = await leased(createLane({}, new Sloppy()));
    const { lane } = under;
    lane.accept([stored(), stored()]);
    await turn();
    expect(lane.outage.circuit.state).toBe('open');
    expect(lane.room.held).toBe(0);
  });
});
