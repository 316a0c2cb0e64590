import type { OutboxMessage, PublishResult } from '../../../lib/index.js';
import { Deadline } from '../../../lib/time/deadline.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createTransportRelay, gate, leased, loseAndRegain, stored, turn } from '../../support/transport-relay.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });
const seqs = (messages: readonly OutboxMessage[]) => messages.map(({ seq }) => seq);

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
});

describe('a relay and its order', () => {
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
});
