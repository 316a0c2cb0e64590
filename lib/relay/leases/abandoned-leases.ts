import type { Clock } from '../../time/clock.js';
import type { OutboxHooks } from '../../observe/events.js';
import type { Acquired, LeaseStore, LiveInstance } from '../../store/lease-store.js';
import { tellExpired, tellHeld, tellVoid } from './lease-news.js';
import { VoidLeases } from './void-leases.js';

/** Leases of others that nobody will renew, and what is told of them. */
export class AbandonedLeases {
  /** Who is told. Set by the dispatcher. */
  news: Pick<OutboxHooks, 'emit'> = { emit: () => undefined };
  readonly voids: VoidLeases;
  /** Nobody was told yet whose leases are waited for, and this is the start. */
  isFirst = true;
  /** Since when what others hold is known. @internal */
  lookedAt = -Infinity;

  constructor(
    readonly store: Pick<LeaseStore, 'heldLeases' | 'endLeases' | 'leave'>,
    readonly clock: Clock,
    readonly owner: string,
    /** Milliseconds, of this instance. @internal */
    readonly lease: number,
  ) {
    this.voids = new VoidLeases(store, clock, owner, lease);
  }

  /**
   * At the end of a pass, where there is need: says once whose leases are waited for, and ends what is void.
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
    const asked = this.clock.monotonic();
    const isCalm = !hungry && !this.voids.suspects;
    // Now and then all the same: how long a lease has stood unchanged is known from the first look on.
    if (isCalm && (living.length < 2 || asked - this.lookedAt < this.lease / 3)) return Infinity;
    this.lookedAt = asked;
    const held = await this.store.heldLeases();
    const waitedFor = held.filter(({ owner, transport }) => owner !== this.owner && transports.has(transport));
    if (hungry && this.isFirst) tellHeld(this.news, waitedFor, living);
    this.isFirst = false;
    tellVoid(this.news, await this.voids.end(living, held, asked)); // and the next pass takes them
    if (isCalm) return Infinity;
    return Math.max(SOON, Math.min(...waitedFor.map(({ remaining }) => remaining)));
  }

  taken(leases: readonly Acquired[]): void {
    tellExpired(
      this.news,
      leases.map(({ former = null }) => former),
    );
  }
}

/** Milliseconds: a lease that has not run out in time by another clock is not tried without a pause. */
const SOON = 20;
