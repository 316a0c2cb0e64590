import { gate, turn } from '../../../support/transport-relay.js';
import { LEASE, LeaseFleet, sizes } from '../../../support/lease-fleet.js';

describe('bucket leases', () => {
  it.each([
    [1, [32]],
    [2, [16, 16]],
    [3, [11, 11, 10]],
    [4, [8, 8, 8, 8]],
    [5, [7, 7, 6, 6, 6]],
  ])('%i instances share 32 buckets as %j, whoever came first', async (count, shares) => {
    const fleet = new LeaseFleet();
    const members = [];
    for (let i = 0; i < count; i += 1) {
      members.push(fleet.join(`owner ${i}`));
      await fleet.settle(members, 2);
    }
    await fleet.settle(members);
    expect(sizes(members)).toEqual(shares);
    const owners = [...fleet.store.leases.values()].map(({ owner }) => owner);
    expect(owners).not.toContain(null);
  });

  it.each(['giveBack', 'beat'] as const)(
    'asks a second time at its end when the database has just ended the connection (%s)',
    async (method) => {
      const fleet = new LeaseFleet();
      const [{ store }, { leases }] = [fleet, fleet.join('a')];
      await leases.runOnce();
      const ended = jest.spyOn(store, method).mockRejectedValueOnce(new Error('Connection terminated unexpectedly'));
      await leases.releaseAll();
      expect(ended).toHaveBeenCalledTimes(2);
      expect(await store.acquire({ owner: 'b', leaseMs: LEASE, transport: 0, limit: 32 })).toHaveLength(32);
    },
  );

  it('drains before it gives back, and publishes nothing of a bucket meanwhile', async () => {
    const fleet = new LeaseFleet();
    const first = fleet.join('a');
    await fleet.settle([first]);
    const draining = gate();
    first.holder.drained = () => draining.opened;
    const second = fleet.join('b');
    await fleet.settle([second, first, second]);
    expect(second.leases.of(0).size).toBe(0);
    expect([...Array(32).keys()].filter((bucket) => first.leases.usable(0, bucket, 0))).toHaveLength(16);
    draining.open();
    await turn();
    await fleet.settle([second, first]);
    expect(sizes([first, second])).toEqual([16, 16]);
  });

  it('a bucket that could not be given back is never used again under its old epoch; the next pass takes it', async () => {
    const fleet = new LeaseFleet();
    const { leases, holder } = fleet.join('a');
    await leases.runOnce();
    const { giveBack } = fleet.store;
    fleet.store.giveBack = () => Promise.reject(new Error('connection lost'));
    leases.giveBack(0, holder, [3]);
    await turn();
    expect(leases.lease(0, 3)).toBeUndefined();
    fleet.store.giveBack = giveBack;
    await leases.runOnce(); // no time went by: failovers are waited for
    expect(leases.lease(0, 3)?.epoch).toBe('2');
  });
});

describe('the end of a lease', () => {
  it('is before the database says so: taken before the statement was sent', async () => {
    const fleet = new LeaseFleet();
    const { leases } = fleet.join('a');
    const { acquire } = fleet.store;
    fleet.store.acquire = async (request) => {
      await fleet.clock.advance(5_000); // a slow answer
      return acquire(request);
    };
    await leases.runOnce();
    expect(leases.usable(0, 0, LEASE - 5_001)).toBe(true);
    expect(leases.usable(0, 0, LEASE - 4_999)).toBe(false);
  });

  it('renews in time for one more publish, always', async () => {
    const fleet = new LeaseFleet();
    const { leases, holder } = fleet.join('a');
    let waits = 0;
    for (let delay = await leases.runOnce(); waits < 40; waits += 1) {
      await fleet.clock.advance(delay);
      expect(leases.usable(0, 0, 17_000)).toBe(true);
      delay = await leases.runOnce();
    }
    expect(holder.losses).toEqual([]);
  });

  it('is lost when it expired and is acquired again in one pass', async () => {
    const fleet = new LeaseFleet();
    const { leases, holder } = fleet.join('a');
    const { acquire } = fleet.store;
    fleet.store.acquire = async (request) => acquire({ ...request, limit: 10 });
    await leases.runOnce();
    // The process was frozen or blocked for longer than a lease; another owner came and went meanwhile.
    Object.assign(fleet.store.leases.get(5) as object, { owner: null, epoch: 8n });
    fleet.store.renew = async () => [...leases.of(0)].map(([bucket, { epoch }]) => ({ transport: 0, bucket, epoch }));
    await leases.runOnce();
    expect(holder.losses).toEqual([5]);
    expect(leases.lease(0, 5)?.epoch).toBe('9');
  });

  it('after a jump of the wall clock nothing is usable, and new leases are', async () => {
    const fleet = new LeaseFleet();
    const { leases, holder } = fleet.join('a');
    await leases.runOnce();
    fleet.clock.jump = -3_600_000; // it was set back: the monotonic clock counts
    expect(leases.usable(0, 0, LEASE - 1)).toBe(true);
    fleet.clock.jump = 3_600_000;
    expect(leases.usable(0, 0, 0)).toBe(false);
    for (const lease of fleet.store.leases.values()) lease.owner = null; // the database's clock says so later
    await leases.runOnce();
    expect(holder.losses).toHaveLength(32);
    expect(leases.usable(0, 0, 17_000)).toBe(true);
    expect(leases.lease(0, 0)?.epoch).toBe('2');
  });
});
