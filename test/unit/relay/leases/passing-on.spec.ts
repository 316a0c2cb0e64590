import { BucketLeases, type LeaseListener } from '../../../../lib/relay/leases/bucket-leases.js';
import type { Instance } from '../../../../lib/store/lease-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { StubStore, turn } from '../../../support/transport-relay.js';

const holder: LeaseListener = {
  gained: () => undefined,
  renewed: () => undefined,
  lost: () => undefined,
  drain: async () => undefined,
  participates: true,
};

/** Instances over one lease table, each with what it can handle. */
function createFleet(...all: (readonly string[] | undefined)[]) {
  const store = new StubStore(8);
  const clock = new FakeClock();
  const alive = new Map<string, Instance>();
  store.beat = async (instance) => {
    alive.set(instance.owner, instance);
    return { instances: [...alive.values()], now: 0 };
  };
  const settings = { lease: 30_000, buckets: 8, leader: false, every: 1_000, need: 17_000 };
  const members = all.map((can, n) => {
    const leases = new BucketLeases(store, clock, `owner ${n}`, 'host', settings);
    leases.register(0, holder);
    leases.passingOn.register(0, can === undefined ? {} : { handles: () => can });
    return leases;
  });
  const run = async (rounds: number): Promise<void> => {
    for (let round = 0; round < rounds; round += 1) {
      for (const leases of members) await leases.runOnce();
      await turn();
      await clock.advance(1_001);
    }
  };
  /** Who has it. */
  const owners = (bucket: number): number[] => members.flatMap((leases, n) => (leases.of(0).has(bucket) ? [n] : []));
  return { members, run, owners, alive };
}
type Fleet = ReturnType<typeof createFleet>;

/** @returns one that the first of them has */
async function shared({ members, run }: Fleet): Promise<number> {
  await run(14);
  return [...(members[0]?.of(0).keys() ?? [])][0] as number;
}

describe('a bucket whose messages can be handled elsewhere', () => {
  it('K8: what an instance tells the others fits into its row, however many types and transports there are', () => {
    const types = Array.from({ length: 40 }, (_, n) => `1 ${String(n).padStart(250, 'ä')}`);
    const { members } = createFleet(types, types);
    const [leases] = members as [BucketLeases];
    for (let transport = 1; transport < 4; transport += 1)
      leases.passingOn.register(transport, { handles: () => types });
    const others = [{ transports: [0], info: `host ${JSON.stringify({ 0: { can: ['*'], gives: {} } })}` }];
    const held = new Map(Array.from({ length: 8 }, (_, bucket) => [bucket, { epoch: '1', since: -Infinity }]));
    for (const bucket of held.keys()) for (const type of types) leases.passingOn.want(0, bucket, type, others);
    leases.passingOn.give(0, held as never);
    const told = leases.passingOn.announced('host', Array(100).fill('ä'.repeat(1_000)));
    expect(Buffer.byteLength(told)).toBeLessThan(65_535);
    expect(told).toContain('"*"');
  });

  it('K8: goes there, beside the fair share, and comes back after a while', async () => {
    const fleet = createFleet(['* x'], ['* y', '2 z']);
    const bucket = await shared(fleet);
    expect(fleet.owners(bucket)).toEqual([0]);
    expect(fleet.members[0]?.passOn(0, bucket, '1 y')).toBe(true);
    await fleet.run(4);
    expect(fleet.owners(bucket)).toEqual([1]);
    expect(fleet.members.map((leases) => leases.of(0).size)).toEqual([3, 5]);
    await fleet.run(40);
    expect(fleet.members.map((leases) => leases.of(0).size)).toEqual([4, 4]);
  });

  it('K8: goes to and fro, and an offer of before is not taken for one of now', async () => {
    const fleet = createFleet(['* x'], ['* y']);
    const bucket = await shared(fleet);
    for (let n = 0; n < 4; n += 1) {
      expect(fleet.members[n % 2]?.passOn(0, bucket, n % 2 === 0 ? '1 y' : '1 x')).toBe(true);
      await fleet.run(4);
      expect(fleet.owners(bucket)).toEqual([(n + 1) % 2]);
    }
  });

  it('K8: stays where nobody else can, whatever stands in the rows of the others', async () => {
    const fleet = createFleet(['* x'], ['2 y'], undefined);
    const bucket = await shared(fleet);
    fleet.alive.set('foreign', { owner: 'foreign', transports: [0], info: 'host {"0":{"can":7}}' });
    fleet.alive.set('odd', { owner: 'odd', transports: [0], info: 'host {"0":' });
    await fleet.run(1);
    expect(fleet.members[0]?.passOn(0, bucket, '1 y')).toBe(false);
    expect(fleet.members[0]?.passOn(0, bucket, '2 y')).toBe(true);
  });

  it('K8: is had again by who gave it away, when nobody takes it', async () => {
    const fleet = createFleet(['* x'], ['* y']);
    const bucket = await shared(fleet);
    expect(fleet.members[0]?.passOn(0, bucket, '1 y')).toBe(true);
    fleet.members.pop();
    fleet.alive.delete('owner 1');
    await fleet.run(60);
    expect(fleet.owners(bucket)).toEqual([0]);
  });
});
