import type { Pause } from './pauses/pause-store.js';

/** SEAM: which instance may read and publish what. `OutboxStore` says what holds for all roles. */

export interface Bucket {
  readonly transport: number;
  readonly bucket: number;
}
export interface Lease extends Bucket {
  /** Grows at every acquisition, never otherwise. Decimal string. */
  readonly epoch: string;
}

/** A lease that was just taken, and what its former owners left. */
export interface Acquired extends Lease {
  /** Times in a row that its lease ran out in the hands of another owner, and none since lasted; see {@link LeaseStore.renew}. */
  readonly crashes: number;
  /** The message that the former owner was publishing by itself when its lease ran out; see {@link LeaseStore.noteTrial}. */
  readonly trial: string | null;
  /** Whose lease ran out: never given back, and not of this owner; `null`: it was free. */
  readonly former?: string | null;
}

/** A lease that somebody holds. */
export interface HeldLease extends Lease {
  readonly owner: string;
  /** Milliseconds until it runs out, by the database's clock. */
  readonly remaining: number;
  /** When that is, as text of the database: each renewal changes it. */
  readonly until: string;
}

export interface LeaseStore {
  /** Takes up to `limit` buckets of a transport whose lease is free or expired; of `only` when given. */
  acquire(request: {
    owner: string;
    leaseMs: number;
    transport: number;
    limit: number;
    only?: readonly number[];
  }): Promise<Acquired[]>;
  /**
   * Extends every lease of the owner that has not expired and returns them: what is not returned is lost.
   * @param lasted of these, in their epochs, what former owners left is forgotten
   */
  renew(owner: string, leaseMs: number, lasted?: readonly Lease[]): Promise<Lease[]>;
  /** Frees leases of this owner and epoch at once, and forgets their trial. */
  giveBack(owner: string, leases: readonly Lease[]): Promise<void>;
  /** Registers or refreshes this instance; tells who is alive, itself included, and what time it is. @param ttlMs 0: it leaves, and its row is removed */
  beat(instance: Instance, ttlMs: number): Promise<Beat>;
  /**
   * As `beat` tells, and writes nothing: who is alive, and what time it is. Nobody alive: no time either.
   * @param also `gone`: those, too, whose rows have run out and that nobody has removed yet; those that ran out last come first
   */
  living(also?: 'gone'): Promise<Beat>;
  /**
   * Fenced: of this transport the owner publishes this message from now on, and no other; `null`: none. When its leases run
   * out before the next word, whoever takes this bucket knows what killed it. What it noted in other buckets is through,
   * whatever the answer and also where the lease has run out.
   * @returns false when the lease is not this owner's any more
   */
  noteTrial(owner: string, lease: Lease, id: string | null): Promise<boolean>;
  /** All leases that have not run out, whoever's. */
  heldLeases(): Promise<HeldLease[]>;
  /**
   * These run out in so many milliseconds, whatever was said: those that are still of this owner, in this epoch, with this
   * `until`. What somebody is writing under is left out. They are taken like others then.
   */
  endLeases(leases: readonly HeldLease[], inMs: number): Promise<Lease[]>;
  /** Unlocker: clears expired leases and dead instances; never shortens a lease. Returns whose leases it cleared. */
  expire(): Promise<(Lease & { owner: string })[]>;
}
export interface Beat {
  readonly instances: LiveInstance[];
  /** The database's clock, milliseconds since the epoch: what the age of a message is measured by. */
  readonly now: number;
  /** What operators have paused. Absent: the store has no pauses. */
  readonly pauses?: readonly Pause[];
}
export interface Instance {
  /** Random per start (UUID). */
  readonly owner: string;
  /** Transports that this instance can publish to now (its circuit is closed). */
  readonly transports: readonly number[];
  /** Host and pid, for people; its lease, and its troubles, for the others. */
  readonly info: string;
}
export interface LiveInstance extends Instance {
  /** When its row runs out, milliseconds since the epoch by the database's clock. */
  readonly until?: number;
}
