/** SEAM: which instance may read and publish what. `OutboxStore` says what holds for all roles. */

export interface Bucket {
  readonly transport: number;
  readonly bucket: number;
}
export interface Lease extends Bucket {
  /** Grows at every acquisition, never otherwise. Decimal string. */
  readonly epoch: string;
}

export interface LeaseStore {
  /** Takes up to `limit` buckets of a transport whose lease is free or expired; of `only` when given. */
  acquire(request: {
    owner: string;
    leaseMs: number;
    transport: number;
    limit: number;
    only?: readonly number[];
  }): Promise<Lease[]>;
  /** Extends every lease of the owner that has not expired and returns them: what is not returned is lost. */
  renew(owner: string, leaseMs: number): Promise<Lease[]>;
  /** Frees leases of this owner and epoch at once. */
  giveBack(owner: string, leases: readonly Lease[]): Promise<void>;
  /** Registers or refreshes this instance and returns all that are alive, itself included. */
  beat(instance: Instance, ttlMs: number): Promise<Instance[]>;
  /** Removes an instance at shutdown. */
  leave(owner: string): Promise<void>;
  /** Unlocker: clears expired leases and dead instances; never shortens a lease. Returns whose leases it cleared. */
  expire(): Promise<(Lease & { owner: string })[]>;
}
export interface Instance {
  /** Random per start (UUID). */
  readonly owner: string;
  /** Transports that this instance can publish to now (its circuit is closed). */
  readonly transports: readonly number[];
  /** Host, pid, version: for people. */
  readonly info: string;
}
