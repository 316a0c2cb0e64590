import { BucketLeases } from '../../lib/relay/leases/bucket-leases.js';
import type { LeaseHooks, LeaseListener } from '../../lib/relay/leases/lease-listener.js';
import type { Instance, Lease } from '../../lib/store/lease-store.js';
import { FakeClock } from '../../lib/testing/index.js';
import { StubStore, turn } from './transport-relay.js';

export const LEASE = 30_000;

export class Holder implements LeaseListener {
  participates = true;
  gains: number[] = [];
  losses: number[] = [];
  renewals = 0;
  drained: () => Promise<void> = async () => undefined;
  gained(leases: readonly Lease[]): void {
    this.gains.push(...leases.map(({ bucket }) => bucket));
  }
  renewed(): void {
    this.renewals += 1;
  }
  lost(buckets: readonly number[]): void {
    this.losses.push(...buckets);
  }
  drain(buckets: readonly number[]): Promise<readonly number[]> {
    return this.drained().then(() => buckets);
  }
}

/** The wall clock of a machine that somebody sets. */
export class Machine extends FakeClock {
  jump = 0;
  override wall(): number {
    return super.wall() + this.jump;
  }
}

/** Instances over one lease table; `beat` tells them of each other as a database does. */
export class LeaseFleet {
  readonly store = new StubStore(32);
  readonly clock = new Machine();
  readonly alive = new Map<string, Instance>();

  constructor() {
    this.store.beat = async (instance, ttlMs) => {
      if (ttlMs === 0) this.alive.delete(instance.owner);
      else this.alive.set(instance.owner, instance);
      return { instances: [...this.alive.values()], now: 0 };
    };
    this.store.living = async () => ({ instances: [...this.alive.values()], now: 0 });
  }

  join(owner: string, leader = false, hooks: Partial<LeaseHooks> = {}): { leases: BucketLeases; holder: Holder } {
    const settings = { lease: LEASE, buckets: 32, leader, every: 1_000, need: 17_000 };
    const leases = new BucketLeases(this.store, this.clock, owner, owner, settings, hooks);
    const holder = new Holder();
    leases.register(0, holder);
    return { leases, holder };
  }
  /** Some rounds of everybody's lease loop, as time passes. */
  async settle(members: readonly { leases: BucketLeases }[], rounds = 14): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      for (const { leases } of members) await leases.runOnce();
      await turn();
      await this.clock.advance(1_001);
    }
  }
}

export const sizes = (members: readonly { leases: BucketLeases }[]) => members.map(({ leases }) => leases.of(0).size);
