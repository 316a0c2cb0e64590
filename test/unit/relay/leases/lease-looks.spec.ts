import type { BucketLeases } from '../../../../lib/relay/leases/bucket-leases.js';
import { turn } from '../../../support/transport-relay.js';
import { LeaseFleet } from '../../../support/lease-fleet.js';

const HEARING = { hears: () => true };

describe('B17: others that come, free and leave', () => {
  /** Its loop, for so many milliseconds of its clock. @returns how often it looked, and wrote that it lives */
  async function counted({ store, clock }: LeaseFleet, leases: BucketLeases, ms: number) {
    const counts = { looks: 0, beats: 0 };
    const { living, beat } = store;
    store.living = () => ((counts.looks += 1), living());
    store.beat = (...word) => ((counts.beats += 1), beat(...word));
    for (const until = clock.monotonic() + ms; clock.monotonic() < until;) await clock.advance(await leases.runOnce());
    return counts;
  }

  it.each([
    [true, 0],
    [false, 110],
  ])('one that is alone looks for them as often as it reads, unless it hears of them (%s)', async (hears, most) => {
    const fleet = new LeaseFleet();
    const { leases } = fleet.join('a', false, { hears: () => hears });
    await leases.runOnce();
    const { looks, beats } = await counted(fleet, leases, 60_000);
    expect(looks).toBeGreaterThanOrEqual(most);
    expect(looks).toBeLessThanOrEqual(most + 10);
    expect(beats).toBeLessThanOrEqual(6); // it writes that it lives three times in a lease
    expect(beats).toBeGreaterThanOrEqual(4);
  });

  it('what it wants it asks for every eighth of that, for two of these', async () => {
    const fleet = new LeaseFleet();
    await fleet.join('a').leases.runOnce();
    const { leases } = fleet.join('b', false, HEARING);
    const delays: number[] = [];
    for (let i = 0; i < 18; i += 1) {
      delays.push(await leases.runOnce());
      await fleet.clock.advance(delays.at(-1) as number);
    }
    expect(delays.slice(0, 16)).toEqual(Array(16).fill(125));
    expect(delays.at(-1)).toBe(1_000);
  });

  it('are told when it comes, when it takes part no more, when it has freed something, and when it has left', async () => {
    const fleet = new LeaseFleet();
    const told: string[] = [];
    let what = 'came';
    const changed = (): void =>
      void told.push(`${what}, ${[...fleet.store.leases.values()].filter(({ owner }) => owner).length} held`);
    const { leases, holder } = fleet.join('a', false, { changed });
    await leases.runOnce();
    await fleet.settle([{ leases }], 30);
    expect(told).toEqual(['came, 0 held']);
    what = 'fails';
    holder.participates = false;
    leases.lookAgain();
    await leases.runOnce();
    what = 'frees';
    leases.giveBack(0, holder, [3]);
    await turn();
    what = 'left';
    await leases.releaseAll();
    expect(told.slice(1)).toEqual(['fails, 32 held', 'frees, 31 held', 'left, 0 held']);
    expect(fleet.alive.size).toBe(0);
  });

  it('a give-back that fails ends the use of its buckets, also of those drained later; the next pass has them again', async () => {
    const fleet = new LeaseFleet();
    const { leases, holder } = fleet.join('a');
    const again = async (): Promise<number> => fleet.settle([{ leases }]).then(() => leases.of(0).size);
    expect(await again()).toBe(32);
    const giveBack = jest.spyOn(fleet.store, 'giveBack').mockRejectedValueOnce(new Error('away'));
    holder.drain = async (buckets) => buckets.slice(0, 1);
    leases.giveBack(0, holder, [1, 2]);
    await turn();
    expect([leases.of(0).size, await again()]).toEqual([30, 32]);
    giveBack.mockRejectedValueOnce(new Error('away')).mockRejectedValueOnce(new Error('away'));
    await expect(leases.releaseAll()).rejects.toThrow('away');
    expect(await again()).toBe(32);
  });

  it('one whose word ran out before it was read looks again at once', async () => {
    const fleet = new LeaseFleet();
    const { leases } = fleet.join('a');
    jest.spyOn(fleet.store, 'beat').mockResolvedValueOnce({ instances: [], now: Number.NaN });
    expect(await leases.runOnce()).toBe(20);
  });

  it('S4: one that finds nothing free says once, at its start, whose leases it waits for, and for how long', async () => {
    const fleet = new LeaseFleet();
    const owner = 'host pid 7';
    await fleet.join(owner).leases.runOnce();
    fleet.store.heldLeases = async () =>
      [1, 2].map((bucket) => ({ transport: 0, bucket, epoch: '1', owner, until: 'then', remaining: 900 }));
    const told: unknown[] = [];
    const { leases } = fleet.join('b', false, { emit: (...news) => void told.push(news) });
    await leases.runOnce();
    await fleet.clock.advance(1_001);
    await leases.runOnce();
    expect(told).toEqual([['leasesHeld', { buckets: 2, owners: [owner], places: [owner], runOutIn: 900 }]]);
  });

  it('one that says nothing more is looked at when its word runs out, and its leases when these do', async () => {
    const fleet = new LeaseFleet();
    const [a, b] = [fleet.join('a'), fleet.join('b', false, HEARING)];
    await fleet.settle([a, b]);
    const begun = fleet.clock.monotonic();
    const [word, leasesOfA] = [begun + 1_700, begun + 5_150];
    fleet.store.living = async () => {
      const now = fleet.clock.monotonic();
      const all = [...fleet.alive.values()].map((each) => ({ ...each, until: each.owner === 'a' ? word : Infinity }));
      return { instances: all.filter(({ until }) => until > now), now };
    };
    fleet.store.heldLeases = async () => {
      const remaining = leasesOfA - fleet.clock.monotonic();
      return remaining > 0 ? [{ transport: 0, bucket: 0, epoch: '1', owner: 'a', until: 'then', remaining }] : [];
    };
    const { acquire } = fleet.store;
    fleet.store.acquire = (request) => {
      const hasEnded = fleet.clock.monotonic() >= leasesOfA;
      for (const lease of fleet.store.leases.values()) if (hasEnded && lease.owner === 'a') lease.owner = null;
      return acquire(request);
    };
    let takenAt = 0;
    b.leases.lookAgain();
    for (let pass = 0; pass < 100 && takenAt === 0; pass += 1) {
      const delay = await b.leases.runOnce();
      if (b.leases.of(0).size === 32) takenAt = fleet.clock.monotonic();
      await fleet.clock.advance(delay);
    }
    expect(takenAt).toBe(leasesOfA);
  });
});
