import type { Clock } from '../../time/clock.js';
import type { OutboxHooks } from '../../observe/events.js';
import type { Acquired, HeldLease, LeaseStore, LiveInstance } from '../../store/lease-store.js';
import { DeadOwners } from './dead-owners.js';
import type { Processes } from './host-process.js';
import { tellDead, tellExpired, tellHeld, tellVoid } from './lease-news.js';
import { VoidLeases } from './void-leases.js';

/** Leases of others that nobody will renew, and what is told of them. */
export class AbandonedLeases {
  /** Who is told. Set by the dispatcher. */
  news: Pick<OutboxHooks, 'emit'> = { emit: () => undefined };
  readonly voids: VoidLeases;
  readonly dead: DeadOwners;
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
    processes: Processes,
  ) {
    this.voids = new VoidLeases(store, clock, owner, lease);
    this.dead = new DeadOwners(store, clock, owner, processes);
  }

  /** Ends what the dead of this machine held: it can be taken like any lease that ran out. @returns who is left */
  async endDead(instances: LiveInstance[]): Promise<LiveInstance[]> {
    const { living, ended } = await this.dead.end(instances);
    tellDead(this.news, ended, instances);
    return living;
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
    if (hungry && this.isFirst) await this.tell(held, living, transports);
    this.isFirst = false;
    tellVoid(this.news, await this.voids.end(living, held, asked)); // and the next pass takes them
    if (isCalm) return Infinity;
    const waitedFor = held.filter(({ owner, transport }) => owner !== this.owner && transports.has(transport));
    return Math.max(SOON, Math.min(...waitedFor.map(({ remaining }) => remaining)));
  }

  taken(leases: readonly Acquired[]): void {
    tellExpired(
      this.news,
      leases.map(({ former = null }) => former),
    );
  }

  /** @internal */ async tell(
    held: readonly HeldLease[],
    living: readonly LiveInstance[],
    transports: ReadonlyMap<number, unknown>,
  ): Promise<void> {
    const others = held.filter(({ owner, transport }) => owner !== this.owner && transports.has(transport));
    tellHeld(this.news, others, living, new Set(await this.dead.among(living)));
  }
}

/** Milliseconds: a lease that has not run out in time by another clock is not tried without a pause. */
const SOON = 20;
