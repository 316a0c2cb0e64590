import { stopwatch, type Clock } from '../../time/clock.js';
import type { Lease, LeaseStore } from '../../store/lease-store.js';
import { AbandonedLeases } from './abandoned-leases.js';
import { fairShare } from './fair-share.js';
import type { Held, LeaseHooks, LeaseListener, LeaseSettings } from './lease-listener.js';
import { LiveInstances } from './live-instances.js';
import { Pauses } from '../pauses/pauses.js';
import { withTroubles } from '../../store/instance-info.js';

/**
 * Which buckets this instance may read and publish. All transports of the relay share one heartbeat and one renewal, on
 * their own connection and timer.
 *
 * Fair share: the live instances that take part in a transport, sorted by owner, split its buckets evenly; who has too
 * many drains and gives back, who has too few takes what is free or expired.
 */
export class BucketLeases {
  readonly held = new Map<number, Map<number, Held>>();
  readonly holders = new Map<number, LeaseListener>();
  /** Transports that this instance publishes to, with leases or without. */
  readonly present = new Map<number, Pick<LeaseListener, 'participates'>>();
  readonly living: LiveInstances;
  /** What operators have paused: each heartbeat says it. */
  readonly pauses = new Pauses();
  /** Since when (monotonic) this instance wants more than it has. */
  private hungrySince: number | undefined;
  renewedAt = -Infinity;
  /** A statement failed, and may have happened all the same. */
  isUnsure = false;
  /** Milliseconds that the last renewal took, where it left no time to begin a publish in; else `null`. */
  slowRenewal: number | null = null;
  draining = new Set<string>();
  /** Times that the database answered. */
  answers = 0;
  readonly abandoned: AbandonedLeases;
  /** Milliseconds after its last word for which this instance counts as alive, and believes in its leases. */
  readonly alive: number;
  private readonly hooks: LeaseHooks;

  constructor(
    readonly store: LeaseStore,
    readonly clock: Clock,
    /** Random per start. */
    readonly owner: string,
    readonly info: string,
    readonly settings: LeaseSettings,
    hooks: Partial<LeaseHooks> = {},
  ) {
    this.hooks = { ...NOBODY, ...hooks };
    this.abandoned = new AbandonedLeases(store, clock, owner, settings.lease, this.hooks);
    this.alive = Math.min(settings.lease, Math.max(MOST_SILENCE, settings.need * 2));
    this.living = new LiveInstances(store, clock, owner, this.alive, this.abandoned, this.pauses);
  }

  register(transport: number, holder: LeaseListener): void {
    this.holders.set(transport, holder);
    this.held.set(transport, new Map());
    this.announce(transport, holder);
  }

  /** For a transport without leases: the others, and health, see that somebody publishes to it. */
  announce(transport: number, holder: Pick<LeaseListener, 'participates'>): void {
    this.present.set(transport, holder);
  }

  /** It publishes to this one no more: others take what it has, each bucket as soon as nothing of that is out. */
  withdraw(transport: number): void {
    this.present.delete(transport);
    this.tellNow();
  }

  of(transport: number): ReadonlyMap<number, { readonly epoch: string }> {
    return this.held.get(transport) ?? new Map<number, Held>();
  }

  /** Milliseconds since the epoch by the database's clock, whatever this machine's says; `-Infinity` before the first beat. */
  get now(): number {
    return this.living.now;
  }

  /** The lease for a fenced write; `undefined` when it is not ours. */
  lease(transport: number, bucket: number): Lease | undefined {
    const held = this.held.get(transport)?.get(bucket);
    return held === undefined ? undefined : { transport, bucket, epoch: held.epoch };
  }

  /** Whether work that takes up to `need` ms may start on this bucket. Default: one publish. */
  usable(transport: number, bucket: number, need = this.settings.need): boolean {
    const held = this.held.get(transport)?.get(bucket);
    return held !== undefined && this.remaining(held) > need && !this.draining.has(`${transport}/${bucket}`);
  }

  /** Milliseconds for which it is good by this process's reckoning, which ends before the database's; negative: it is over. */
  private remaining({ age }: Pick<Held, 'age'>): number {
    return this.alive - age();
  }

  /** Leases in a row that ran out before ours, at the bucket of this transport where they are most. */
  crashes(transport: number): number {
    return Math.max(0, ...[...(this.held.get(transport)?.values() ?? [])].map(({ crashes }) => crashes));
  }

  /**
   * Renew, look who is there, take or give back. One pass of the lease loop; returns the delay until the next. What failed may have
   * happened all the same: the next pass renews and looks, whatever the time, and so hears what is ours and what is news.
   */
  runOnce(): Promise<number> {
    return this.pass().catch((error: unknown) => {
      this.isUnsure = true;
      this.lookAgain();
      throw error;
    });
  }

  private async pass(): Promise<number> {
    this.dropExpired();
    if (this.isUnsure || this.clock.monotonic() - this.renewedAt >= this.renewEvery) await this.renew();
    if (this.living.dueIn(this.lookEvery) <= 0) await this.tell('look');
    let hungry = false;
    for (const [transport, holder] of this.holders) hungry = (await this.balance(transport, holder)) || hungry;
    this.hungrySince = hungry ? (this.hungrySince ?? this.clock.monotonic()) : undefined;
    const freeIn = await this.abandoned.look(this.living.list, hungry, this.holders);
    return Math.min(this.renewEvery, freeIn, Math.max(SOON, this.living.dueIn(this.lookEvery)));
  }

  /** Milliseconds between two looks. What is wanted is mostly about to be freed: the first looks follow fast. */
  private get lookEvery(): number {
    const { every } = this.settings;
    const hungryFor = this.hungrySince === undefined ? Infinity : this.clock.monotonic() - this.hungrySince;
    if (hungryFor < every * FAST_FOR) return every / FAST;
    if (this.holders.size > 0 && !this.hooks.hears()) return every / 2;
    return this.hungrySince !== undefined || this.living.others.length > 0 ? every : this.alive / 3;
  }

  /** Often enough that a lease is always good for one more publish, also when a renewal comes late. */
  get renewEvery(): number {
    return Math.max(100, Math.min(this.alive / 3, (this.alive - this.settings.need) / 2));
  }

  /** What this instance tells of itself has changed: it is written now, for every process that asks. */
  tellNow(): void {
    this.lookAgain();
    this.hooks.freed();
  }

  /** The next pass looks at the other instances, whatever the time. */
  lookAgain(): void {
    this.living.lookAgain();
  }

  /** Asks twice when need be: after a restart of the database, the first statement finds a connection that has ended. */
  async releaseAll(): Promise<void> {
    this.isUnsure = true; // what fails is found by the renewal of the next pass, if there is one
    for (const buckets of this.held.values()) buckets.clear();
    const release = async (): Promise<void> => {
      // As the database knows them: what was to be given back or taken before may have failed, and have happened all the same.
      const mine = (await this.store.heldLeases()).filter(({ owner }) => owner === this.owner);
      if (mine.length > 0) await this.store.giveBack(this.owner, mine);
      await this.living.leave();
    };
    await release().catch(release);
    this.pauses.forget();
    this.lookAgain();
    this.hooks.changed();
  }

  private async renew(): Promise<void> {
    const age = stopwatch(this.clock); // from before the statement was sent
    await this.sayAlive();
    const lasted = this.lasted();
    const renewed = new Map<string, string>();
    const unexpected: Lease[] = [];
    if (this.isUnsure || [...this.held.values()].some((buckets) => buckets.size > 0)) {
      for (const lease of await this.store.renew(this.owner, this.settings.lease, [...lasted.values()])) {
        if (this.held.get(lease.transport)?.has(lease.bucket))
          renewed.set(`${lease.transport}/${lease.bucket}`, lease.epoch);
        else unexpected.push(lease);
      }
      this.isUnsure = false;
    }
    this.answers += renewed.size > 0 || unexpected.length > 0 ? 1 : 0;
    this.renewedAt = this.clock.monotonic();
    this.slowRenewal = renewed.size > 0 && this.remaining({ age }) <= this.settings.need ? age() : null;
    for (const [transport, buckets] of this.held) {
      const lost: number[] = [];
      for (const [bucket, held] of buckets) {
        if (renewed.get(`${transport}/${bucket}`) !== held.epoch) lost.push(bucket);
        else {
          held.age = age;
          if (lasted.has(held)) held.crashes = 0;
        }
      }
      this.lose(transport, lost);
    }
    for (const holder of this.holders.values()) holder.renewed();
    // Acquired or freed without our hearing of it: nobody reads them, and each renewal would keep it so.
    if (unexpected.length > 0) await this.store.giveBack(this.owner, unexpected);
  }

  /** Whoever has held a lease for as long as it takes to lose one does not die of it: former crashes count no more. */
  private lasted(): ReadonlyMap<Held, Lease> {
    return new Map(
      [...this.held].flatMap(([transport, buckets]) =>
        [...buckets].flatMap(([bucket, held]): [Held, Lease][] =>
          held.crashes > 0 && this.clock.monotonic() - held.since >= this.settings.lease
            ? [[held, { transport, bucket, epoch: held.epoch }]]
            : [],
        ),
      ),
    );
  }

  /** A lease that is longer than that is only good while others see that its owner lives: they are told first. */
  private async sayAlive(): Promise<void> {
    if (this.alive < this.settings.lease) await this.tell('beat');
  }

  private dropExpired(): void {
    for (const [transport, buckets] of this.held) {
      const expired = [...buckets.keys()].filter((bucket) => this.remaining(buckets.get(bucket) as Held) <= 0);
      this.lose(transport, expired);
    }
  }

  /** Of these, those that are held. */
  private lose(transport: number, buckets: readonly number[]): void {
    const lost = buckets.filter((bucket) => this.held.get(transport)?.delete(bucket));
    if (lost.length > 0) this.holders.get(transport)?.lost(lost);
  }

  /** Says what this instance is, now or where that is due, and looks who else is there. */
  async tell(how: 'beat' | 'look'): Promise<void> {
    const transports = [...this.present].filter(([, holder]) => holder.participates).map(([transport]) => transport);
    const isNews = await this.living[how]({ transports, info: withTroubles(this.info, this.hooks.troubles()) });
    this.answers += 1;
    if (isNews) this.hooks.changed();
  }

  /** @returns whether this instance still wants more than it has */
  private async balance(transport: number, holder: LeaseListener): Promise<boolean> {
    const mine = this.held.get(transport) as Map<number, Held>;
    const { settings, owner, living, present } = this;
    const share = present.has(transport) ? fairShare(settings, owner, living.list, transport, holder, mine.size) : 0;
    if (mine.size > share) {
      this.giveBack(transport, holder, [...mine.keys()].slice(share));
      return false;
    }
    if (mine.size === share) return false;
    if (this.settings.leader && !mine.has(0)) {
      await this.acquire(transport, holder, 1, [0]);
      if (!mine.has(0)) {
        if (mine.size > 0) this.giveBack(transport, holder, [...mine.keys()]); // somebody else leads
        return true;
      }
    }
    await this.acquire(transport, holder, share - mine.size);
    return mine.size < share;
  }

  private async acquire(transport: number, holder: LeaseListener, limit: number, places?: number[]): Promise<void> {
    const age = stopwatch(this.clock); // from before the statement was sent
    await this.sayAlive();
    const request = { owner: this.owner, leaseMs: this.settings.lease, transport, limit };
    // In a global order all messages are in one bucket, and any other one would be leased in vain.
    const only = this.settings.buckets === 1 ? [0] : places;
    const leases = await this.store.acquire({ ...request, ...(only && { only }) });
    if (leases.length === 0) return;
    const mine = this.held.get(transport) as Map<number, Held>;
    // Expired and taken again within one pass: what was concluded under the old epoch is void, as after any other loss.
    this.abandoned.taken(leases);
    const again = leases.map(({ bucket }) => bucket);
    this.lose(transport, again);
    const since = this.clock.monotonic();
    for (const { bucket, epoch, crashes } of leases) mine.set(bucket, { epoch, age, crashes, since });
    holder.gained(leases);
  }

  /** Something was done under the present epochs of which nobody knows whether it happened: under others it is done again. */
  changeEpoch(transport: number, buckets: readonly number[]): void {
    const holder = this.holders.get(transport);
    if (holder !== undefined) this.giveBack(transport, holder, buckets);
  }

  /** Drains first, then frees; not awaited by the loop, so that renewal goes on meanwhile. */
  giveBack(transport: number, holder: LeaseListener, buckets: readonly number[]): void {
    const fresh = buckets.filter((bucket) => !this.draining.has(`${transport}/${bucket}`));
    if (fresh.length === 0) return;
    for (const bucket of fresh) this.draining.add(`${transport}/${bucket}`);
    // A failure leaves a lease that nobody uses: the renewal of the next pass finds it.
    const unsure = (): void => void (this.isUnsure = true);
    const free = async (left: readonly number[]): Promise<void> => {
      const drained = await holder.drain(left);
      const leases = drained.map((bucket) => this.lease(transport, bucket)).filter((lease) => lease !== undefined);
      // First here: whatever becomes of the statement, these buckets are not read again under this epoch. Rows of the
      // parked table that were marked as sent under it and forgotten would never be taken again.
      for (const { bucket } of leases) this.held.get(transport)?.delete(bucket);
      if (leases.length > 0) await this.store.giveBack(this.owner, leases).then(() => this.hooks.changed(), unsure);
      if (drained.length < left.length) await free(left.filter((bucket) => !drained.includes(bucket)));
    };
    const end = (): void => {
      for (const bucket of fresh) this.draining.delete(`${transport}/${bucket}`);
      this.hooks.freed();
    };
    void free(fresh).catch(unsure).finally(end);
  }
}

const NOBODY: LeaseHooks = {
  emit: () => undefined,
  freed: () => undefined,
  changed: () => undefined,
  troubles: () => [],
  hears: () => false,
};
/** Times that a look is had in one of the usual pauses, and in how many of these. */
const FAST = 8;
const FAST_FOR = 2;
/** Milliseconds: what has not ended in time by another clock is not asked for without a pause. */
const SOON = 20;
/** Milliseconds: whoever has a longer lease is heard of more often all the same. */
const MOST_SILENCE = 300_000;
