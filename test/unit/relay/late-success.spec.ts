import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createTransportRelay, gate, leased, stored, turn } from '../../support/transport-relay.js';

describe('a success that is heard of when its lease is gone', () => {
  it.each([
    ['somebody else', 'another'],
    ['nobody', null],
  ])('is written all the same, when the lease is now of %s: the message is out', async (_, owner) => {
    const { relay, store, transport, leases } = createTransportRelay();
    await leases.runOnce();
    await relay.openBuckets();
    const out = gate<PublishResult>();
    transport.behave = () => out.opened;
    store.ready = [stored({ key: 'a' })];
    await relay.readOnce();
    await turn();
    const acquire = jest.spyOn(store, 'acquire').mockResolvedValue([]);
    for (const lease of store.leases.values()) lease.owner = owner;
    leases.renewedAt = -Infinity;
    await leases.runOnce();
    expect([leases.lease(0, 0), store.ready.length]).toEqual([undefined, 1]);
    out.open(PUBLISHED);
    await turn();
    expect(store.ready).toEqual([]);
    expect(relay.room.held).toBe(0);
    acquire.mockRestore();
  });
});

describe('a success of a former owner that comes while the message is out again', () => {
  const FAILED: PublishResult = { ok: false, blame: 'message', error: new Error('no') };

  it('lets what was parked behind it go on, when the second publish fails: ready', async () => {
    const { relay, store, transport } = await leased(createTransportRelay());
    const [first, second] = [stored({ key: 'a' }), stored({ key: 'a' })];
    const out = gate<PublishResult>();
    transport.behave = () => out.opened;
    store.ready = [first, second];
    await relay.readOnce();
    await turn();
    store.remove([first]);
    out.open(FAILED);
    await turn();
    expect(store.ready).toEqual([]);
    expect([...relay.parked.toContinue.keys()]).toEqual(['a']);
  });

  it('lets what was parked behind it go on, when the second publish fails: parked', async () => {
    const { relay, store, transport } = await leased(createTransportRelay());
    transport.behave = () => FAILED;
    const parked = stored({ key: 'a', parkedId: '1', parkedState: 'waiting', attempts: 1 });
    relay.accept([parked]);
    await turn();
    expect(relay.parked.toContinue.size).toBe(0);
    store.repark = () => Promise.resolve({ fence: undefined, affected: 0 });
    relay.accept([stored({ ...parked })]);
    await turn();
    expect([...relay.parked.toContinue.keys()]).toEqual(['a']);
  });
});
