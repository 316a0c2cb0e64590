import { toldLease } from '../../store/instance-info.js';
import type { Clock } from '../../time/clock.js';
import type { Acquired, HeldLease, LeaseStore, LiveInstance } from '../../store/lease-store.js';
import { tellExpired, tellHeld, tellShortened, type News } from './lease-news.js';

/** Leases of others that nobody will renew, and what is told of them. */
export class AbandonedLeases {
  /** Nobody was told yet whose leases are waited for, and this is the start. */
  private isFirst = true;
  /** By the monotonic clock. */
  private lookedAt = -Infinity;

  constructor(
    private readonly store: Pick<LeaseStore, 'heldLeases' | 'endLeases' | 'living' | 'beat'>,
    private readonly clock: Clock,
    private readonly owner: string,
    /** Milliseconds, of this instance. */
    private readonly lease: number,
    private readonly news: News,
  ) {}

  /**
   * A heartbeat that ends far later than its instance promises was written while the database's clock was ahead. It is written
   * once more, as if it were heard now: whoever lives says its next word before that ends.
   */
  async heard(instances: readonly LiveInstance[], now: number): Promise<void> {
    for (const each of instances) {
      const lease = leaseOf(each);
      if (each.owner === this.owner || (each.until ?? now) - now <= 2 * lease) continue;
      await this.store.beat(each, lease);
      this.lookedAt = -Infinity; // so may its leases
    }
  }

  /**
   * At the end of a pass, where there is need: says once whose leases are waited for, and shortens what ends too late.
   * @param hungry this instance wants more than it has
   * @param transports that it publishes to
   * @returns milliseconds until the first of these leases runs out, by what was said when it was written last
   */
  async look(
    living: readonly LiveInstance[],
    hungry: boolean,
    transports: ReadonlyMap<number, unknown>,
  ): Promise<number> {
    if (!hungry) this.isFirst = false;
    const now = this.clock.monotonic();
    // Now and then all the same: the part of one that is gone may lie in the future.
    if (!hungry && (living.length < 2 || now - this.lookedAt < this.lease / 3)) return Infinity;
    const held = await this.store.heldLeases();
    const waitedFor = held.filter(({ owner, transport }) => owner !== this.owner && transports.has(transport));
    if (this.isFirst) tellHeld(this.news, waitedFor, living);
    this.isFirst = false;
    await this.shorten(held);
    this.lookedAt = now;
    return hungry ? Math.max(SOON, Math.min(...waitedFor.map(({ remaining }) => remaining))) : Infinity;
  }

  /**
   * Leases that end far later than any living instance promises: their owner died while the database's clock was ahead, or with
   * a longer lease. They end as late as the longest of the living from now on. That takes nothing from anybody: whoever lives
   * believes in a lease for no longer than that, and renews it meanwhile.
   */
  private async shorten(held: readonly HeldLease[]): Promise<void> {
    if (held.every(({ remaining }) => remaining <= 2 * this.lease)) return;
    // Asked after the leases: whoever took one of them has said before for how long it leases.
    const { instances } = await this.store.living();
    const longest = Math.max(this.lease, ...instances.map(leaseOf));
    const over = held.filter(({ owner, remaining }) => owner !== this.owner && remaining > 2 * longest);
    if (over.length === 0) return;
    const shortened = new Set((await this.store.endLeases(over, longest)).map(placeOf));
    tellShortened(
      this.news,
      over.filter((lease) => shortened.has(placeOf(lease))),
      longest,
    );
  }

  taken(leases: readonly Acquired[]): void {
    tellExpired(
      this.news,
      leases.map(({ former = null }) => former),
    );
  }
}

const leaseOf = ({ info }: LiveInstance): number => toldLease(info) ?? LONGEST;
const placeOf = ({ transport, bucket }: Pick<HeldLease, 'transport' | 'bucket'>): string => `${transport}/${bucket}`;

/** Milliseconds: a lease that has not run out in time by another clock is not tried without a pause. */
const SOON = 20;
/** Milliseconds: as long as the option allows. */
const LONGEST = 3_600_000;
