import { PUBLISHED, type PublishResult } from '../../lib/publish/transport.js';
import { createLane, gate, stored, turn } from '../support/lane.js';

describe('a success that is heard of when its lease is gone', () => {
  it.each([
    ['somebody else', 'another'],
    ['nobody', null],
  ])('is written all the same, when the lease is now of %s: the message is out', async (_, owner) => {
    const { lane, store, transport, leases } = createLane();
    await leases.runOnce();
    await lane.openBuckets();
    const out = gate<PublishResult>();
    transport.behave = () => out.opened;
    store.ready = [stored({ key: 'a' })];
    await lane.readOnce();
    await turn();
    const acquire = jest.spyOn(store, 'acquire').mockResolvedValue([]);
    for (const lease of store.leases.values()) lease.owner = owner;
    leases.renewedAt = -Infinity;
    await leases.runOnce();
    expect([leases.lease(0, 0), store.ready.length]).toEqual([undefined, 1]);
    out.open(PUBLISHED);
    await turn();
    expect(store.ready).toEqual([]);
    expect(lane.room.held).toBe(0);
    acquire.mockRestore();
  });
});
