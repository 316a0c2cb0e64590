import type { Clock } from '../../time/clock.js';
import type { HeldLease, Lease, LeaseStore, LiveInstance } from '../../store/lease-store.js';
import { toldLease } from '../../store/instance-info.js';

interface Seen {
  /** What is there, whole: any word of the owner changes it. */
  readonly state: string;
  /** When it was first there, by the monotonic clock. */
  readonly since: number;
}

/**
 * Leases and heartbeats that lie further in the future than any living instance promises: the database's clock was ahead
 * when they were written, or they are of an instance with a longer lease that died. Waiting for their end would take as long.
 *
 * That alone proves nothing, as a clock that is set back makes all of them such. What proves it is silence: whoever lives
 * renews within a third of its lease. So they are void once they stood unchanged for the longest lease that a living
 * instance told, which is as long as the lease of a crashed instance lasts anyhow.
 */
export class VoidLeases {
  /** @internal */ leases = new Map<string, Seen>();
  /** @internal */ rows = new Map<string, Seen>();
  /** @internal */ lookedAt = -Infinity;

  constructor(
    readonly store: Pick<LeaseStore, 'endLeases' | 'leave'>,
    readonly clock: Clock,
    readonly owner: string,
    /** Milliseconds, of this instance. */
    readonly lease: number,
  ) {}

  /** Without the rows of instances that died while the database's clock was ahead, which are removed. */
  async living(instances: readonly LiveInstance[], now: number, asked: number): Promise<LiveInstance[]> {
    const before = this.rows;
    this.rows = new Map();
    const gone = instances.filter(({ owner, info, until }) => {
      const told = toldLease(info);
      if (owner === this.owner || told === undefined || until === undefined || until - now <= told) return false;
      const since = this.note(this.rows, before, owner, String(until));
      return asked - since >= told;
    });
    for (const { owner } of gone) await this.store.leave(owner);
    return instances.filter((each) => !gone.includes(each));
  }

  /** Whether a heartbeat lies in the future: the leases of its instance may, too. */
  get suspects(): boolean {
    return this.rows.size > 0;
  }

  /**
   * Ends what is void, so that it can be taken like any lease that ran out.
   * @param held all leases, and when they were asked for
   * @returns the leases that were ended
   */
  async end(
    living: readonly LiveInstance[],
    held: readonly HeldLease[],
    asked: number,
  ): Promise<readonly (Lease & { owner: string })[]> {
    const longest = this.longest(living);
    if (longest === Infinity) return [];
    const before = this.leases;
    this.leases = new Map();
    const over = held
      .filter((lease) => lease.owner !== this.owner && lease.remaining > longest)
      .filter((lease) => {
        const since = this.note(this.leases, before, `${lease.transport}/${lease.bucket}`, stateOf(lease));
        return asked - since >= longest;
      });
    if (over.length === 0) return [];
    const ended = await this.store.endLeases(over);
    return ended.map((lease) => ({ ...lease, owner: ownerOf(lease, over) }));
  }

  /** Milliseconds: the longest lease that a living instance promises; `Infinity` while one does not tell. @internal */
  longest(living: readonly LiveInstance[]): number {
    const others = living.filter(({ owner }) => owner !== this.owner);
    return Math.max(this.lease, ...others.map(({ info }) => toldLease(info) ?? Infinity));
  }

  /** @returns since when it has been so @internal */
  note(seen: Map<string, Seen>, before: ReadonlyMap<string, Seen>, name: string, state: string): number {
    const known = before.get(name);
    const since = known?.state === state ? known.since : this.clock.monotonic();
    seen.set(name, { state, since });
    return since;
  }
}

const stateOf = ({ owner, epoch, until }: HeldLease): string => `${epoch} ${owner} ${until}`;
const ownerOf = ({ transport, bucket }: Lease, among: readonly HeldLease[]): string =>
  among.find((each) => each.transport === transport && each.bucket === bucket)?.owner ?? '';
