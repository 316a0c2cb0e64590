import type { OutboxMessage, PublishResult } from '../../../lib/index.js';
import { Deadline } from '../../../lib/time/deadline.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createTransportRelay, gate, leased, loseAndRegain, stored, turn } from '../../support/transport-relay.js';

const down = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('gone') });
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });
const seqs = (messages: readonly OutboxMessage[]) => messages.map(({ seq }) => seq);

describe('a relay and the order of a key', () => {
  it('a global order is held while its leases are too short to publish', async () => {
    const { relay, store } = await leased(createTransportRelay({ ordering: 'global' }));
    relay.globalOrder.hold();
    store.blockedAmong = async (_transport, keys) => [...keys];
    relay.usable = () => false;
    await relay.parkedOnce();
    expect(relay.globalOrder.on).toBe(true);
  });
});

describe('a relay and its leases', () => {
  it('R9: frees what was put off in a bucket of a global order, too, whose first look at what holds it fails', async () => {
    const { relay, store, leases } = createTransportRelay({ ordering: 'global' });
    await leases.runOnce();
    const freed: (readonly number[])[] = [];
    store.due = async () => ({ rows: [], nextIn: 1_000_000 });
    store.hasten = async (_transport, buckets) => {
      freed.push(buckets);
      return { hastened: 0, passed: 0, next: null };
    };
    let asked = 0;
    store.blockedAmong = async (_transport, keys) => {
      asked += 1;
      if (asked === 2) throw new Error('the connection is lost'); // the first one asks for its keys
      return [...keys];
    };
    await expect(relay.parkedOnce()).rejects.toThrow('the connection is lost');
    await relay.parkedOnce();
    expect(freed).toEqual([[0]]);
  });

  it('does not write under a new lease what it decided under the old one; reads it again, in order', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport, clock } = under;
    store.ready = [stored({ key: 'a' }), stored({ key: 'a' }), stored({ key: 'a' })];
    const inOrder = seqs(store.ready);
    const parked: string[][] = [];
    store.park = async (_owner, _leases, entries) => {
      parked.push(seqs(entries as never));
      throw new Error('the connection is gone');
    };
    transport.behave = rejected;
    await relay.readOnce();
    await turn();
    expect(parked).toHaveLength(1); // and will be tried again
    await loseAndRegain(under);
    transport.behave = () => PUBLISHED;
    await relay.readOnce();
    await turn();
    await clock.advance(1_000);
    await turn();
    expect(parked).toHaveLength(1);
    expect(seqs(transport.published)).toEqual(inOrder);
    expect(relay.room.held).toBe(0);
    expect(relay.reader.known.size).toBe(0);
  });

  it('charges nothing for a failure of a message that was out when its lease was lost, also when that is its own again', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    store.ready = [stored({ key: 'a' }), stored({ key: 'a' })];
    const inOrder = seqs(store.ready);
    const out = gate<PublishResult>();
    transport.behave = () => out.opened;
    await relay.readOnce();
    await turn();
    await loseAndRegain(under);
    await relay.readOnce();
    const park = jest.spyOn(store, 'park');
    transport.behave = () => PUBLISHED;
    out.open(rejected());
    await turn();
    await relay.readOnce();
    await turn();
    expect(park).not.toHaveBeenCalled();
    expect(seqs(transport.published)).toEqual(inOrder);
    expect(relay.room.held).toBe(0);
  });

  it('forgets what was read when the lease is lost while the read is made durable, and reads it again later', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    store.ready = [stored({ key: 'a' })];
    const flushing = gate();
    const { fetch } = store;
    store.fetch = async (request) => ({ ...(await fetch(request)), durable: false });
    store.flush = () => flushing.opened;
    const read = relay.readOnce();
    await turn();
    await loseAndRegain(under);
    flushing.open();
    await read;
    store.flush = async () => undefined;
    await relay.readOnce();
    await turn();
    expect(transport.published).toHaveLength(1);
    expect(relay.room.held).toBe(0);
    expect(relay.reader.known.size).toBe(0);
  });

  it('a bucket that is lost and leased again during a read is read from its start', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    transport.behave = () => new Promise(() => undefined);
    const first = stored({ key: 'a' });
    const blocker = stored({ key: 'a' });
    store.ready = [first, blocker];
    await relay.readOnce(); // `first` is out, `blocker` waits behind it
    await turn();
    const fetching = gate();
    const { fetch } = store;
    store.fetch = async (request) => {
      const result = await fetch(request);
      await fetching.opened;
      return result;
    };
    store.ready.push(stored({ key: 'b' }));
    const read = relay.readOnce();
    await turn();
    await loseAndRegain(under);
    store.fetch = fetch;
    await relay.parkedOnce(); // opens the buckets again
    fetching.open();
    await read;
    await relay.readOnce();
    expect(new Set(relay.reader.known.ids.keys())).toEqual(new Set(store.ready.map(({ seq }) => seq)));
  });

  it('what was taken from the parked table under a lease that is gone is not published', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    await relay.readOnce();
    const taking = gate();
    store.due = async () => ({ rows: [{ parkedId: '1', bucket: 0, key: null, state: 'waiting' }], nextIn: null });
    store.take = async () => {
      await taking.opened;
      return { messages: [stored({ parkedId: '1', parkedState: 'waiting' })], clear: [], durable: true };
    };
    const taken = relay.parkedOnce();
    await turn();
    await loseAndRegain(under);
    await relay.readOnce();
    taking.open();
    await taken;
    await turn();
    expect(transport.attempted).toEqual([]);
    expect(relay.room.held).toBe(0);
  });

  it('a message whose lease was lost while it was out is left to the new owner when it fails', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport } = under;
    const outcome = gate<PublishResult>();
    transport.behave = () => outcome.opened;
    store.ready = [stored({ key: 'a' }), stored({ key: 'a' })];
    await relay.readOnce();
    await turn();
    for (const lease of store.leases.values()) lease.owner = 'somebody else';
    under.leases.renewedAt = -Infinity;
    await under.leases.runOnce();
    outcome.open({ ok: false, blame: 'collateral', error: new Error('channel closed') });
    await turn();
    expect(relay.room.held).toBe(0);
    expect(relay.ledger.queues.readyCount).toBe(0);
    expect(relay.reader.known.size).toBe(0);
  });
});

describe('a relay and its order', () => {
  it('drops a read that was made before a rewind: what was given back comes first', async () => {
    const under = await leased(createTransportRelay());
    const { relay, store, transport, clock } = under;
    const outcome = gate<PublishResult>();
    transport.behave = () => outcome.opened;
    const [first, second] = [stored({ key: 'a' }), stored({ key: 'a' })];
    store.ready = [first];
    await relay.readOnce();
    await turn();
    store.ready.push(second);
    const flushing = gate();
    const { fetch } = store;
    store.fetch = async (request) => ({ ...(await fetch(request)), durable: false });
    store.flush = () => flushing.opened;
    const read = relay.readOnce();
    await turn();
    outcome.open(down());
    await turn();
    flushing.open();
    await read;
    transport.behave = () => PUBLISHED;
    await clock.advance(1_000);
    for (let i = 0; i < 8; i += 1) {
      await relay.readOnce();
      await turn();
    }
    expect(seqs(transport.published)).toEqual([first.seq, second.seq]);
  });

  it('a global order holds what a read under way returns after a failure', async () => {
    const under = await leased(createTransportRelay({ ordering: 'global' }));
    const { relay, store, transport } = under;
    const outcome = gate<PublishResult>();
    transport.behave = (message) => (message.seq === first.seq ? outcome.opened : PUBLISHED);
    const [first, second] = [stored(), stored()];
    store.ready = [first];
    await relay.readOnce();
    await turn();
    store.ready.push(second);
    const fetching = gate();
    const { fetch } = store;
    store.fetch = async (request) => {
      const result = await fetch(request);
      await fetching.opened;
      return result;
    };
    const read = relay.readOnce();
    await turn();
    store.blockedAmong = async (_transport, keys) => [...keys];
    outcome.open(rejected());
    await turn();
    fetching.open();
    await read;
    await turn();
    expect(seqs(transport.attempted)).toEqual([first.seq]);
  });

  it('a global order that is held finds out that the broker is back', async () => {
    const under = await leased(createTransportRelay({ ordering: 'global' }));
    const { relay, store, transport, clock } = under;
    store.ready = [stored()];
    transport.behave = rejected;
    await relay.readOnce();
    await turn();
    store.blockedAmong = async (_transport, keys) => [...keys];
    const parked = stored({ parkedId: '1', parkedState: 'waiting' });
    store.due = async () => ({ rows: [{ parkedId: '1', bucket: 0, key: null, state: 'waiting' }], nextIn: null });
    store.take = async () => ({ messages: [parked], clear: [], durable: true });
    transport.behave = down;
    await relay.parkedOnce();
    await turn();
    expect(relay.outage.circuit.state).toBe('open');
    transport.behave = () => PUBLISHED;
    await clock.advance(1_000);
    for (let i = 0; i < 3; i += 1) {
      await relay.readOnce();
      await relay.parkedOnce();
      await turn();
    }
    expect(transport.published.map(({ parkedId }) => parkedId)).toContain('1');
  });
});

describe('a relay that stops', () => {
  it('L4: a read that it broke off past its deadline is nobody’s error; one that failed before is told', async () => {
    const { loops, store, errors, clock } = await leased(createTransportRelay());
    const [away, ended] = [new Error('away'), new Error('Connection terminated')];
    const reads: ((error: Error) => void)[] = [];
    store.fetch = () => new Promise((_, reject) => reads.push(reject));
    const read = async (): Promise<void> => {
      for (let ms = 0; reads.length === 0 && ms < 60_000; ms += 1_000) await clock.advance(1_000);
      expect(reads.length).toBe(1);
    };
    loops.start();
    await read();
    reads.shift()?.(away);
    await read();
    expect(errors).toEqual([away]);
    const stopped = loops.stop(new Deadline(clock, 60_000));
    await clock.advance(60_000);
    reads.shift()?.(ended);
    await turn();
    await clock.advance(60_000);
    await stopped;
    expect([errors, reads.length]).toEqual([[away], 0]);
  });

  it('L4: a read that fails while its stop waits for it is told', async () => {
    const { loops, store, errors, clock } = await leased(createTransportRelay());
    const away = new Error('away');
    const reads: ((error: Error) => void)[] = [];
    store.fetch = () => new Promise((_, reject) => reads.push(reject));
    loops.start();
    for (let ms = 0; reads.length === 0 && ms < 60_000; ms += 1_000) await clock.advance(1_000);
    const stopped = loops.stop(new Deadline(clock, 60_000));
    reads.shift()?.(away);
    await stopped;
    expect(errors).toEqual([away]);
  });
});
