import type { Clock } from '../../time/clock.js';
import type { Lease, LeaseStore, LiveInstance } from '../../store/lease-store.js';
import type { Processes } from './host-process.js';
import { toldLife } from '../../store/instance-info.js';

/**
 * Instances whose process has ended on this machine (`kill -9`, an IDE's stop, memory that ran out): nobody renews their leases,
 * and to wait for the end of these would only be silence.
 *
 * What such a process had sent may be on its way all the same. Its writes to the database find no lease of theirs: ending a lease
 * passes by one under which a statement of its owner holds the lock, and whoever takes it has a new epoch, which every later write
 * of the old one but success fails on. A success counts, whenever it arrives, and spares a duplicate: hence the pause. To the broker
 * it had sent the first messages of what is read now again, so that whatever arrives late has been published before.
 */
export class DeadOwners {
  /** Owner → since when its process is known to have ended, by the monotonic clock. @internal */
  since = new Map<string, number>();
  /** @internal */ isAsking = false;

  constructor(
    readonly store: Pick<LeaseStore, 'heldLeases' | 'endLeases' | 'leave'>,
    readonly clock: Clock,
    readonly owner: string,
    readonly processes: Processes,
  ) {}

  /** @returns the owners of those whose process has ended, as far as the machine says so in time: a renewal must not wait for it */
  async among(instances: readonly LiveInstance[]): Promise<string[]> {
    const others = instances.filter(({ owner, info }) => owner !== this.owner && toldLife(info) !== undefined);
    if (others.length === 0 || this.isAsking) return [];
    this.isAsking = true;
    const asked = this.ask(others).finally(() => (this.isAsking = false));
    let cancel = (): void => {};
    const late = new Promise<string[]>((resolve) => (cancel = this.clock.after(MOST, () => resolve([]))));
    return Promise.race([asked, late]).finally(cancel);
  }

  /** @internal */ async ask(others: readonly LiveInstance[]): Promise<string[]> {
    const dead: string[] = [];
    for (const { owner, info } of others) {
      if (await this.processes.isGone(toldLife(info) as string)) dead.push(owner);
    }
    return dead;
  }

  /** Milliseconds until something can be ended that cannot be yet; `Infinity`: nothing waits for that. */
  get endsIn(): number {
    const now = this.clock.monotonic();
    const pauses = [...this.since.values()].map((since) => since + PAUSE - now);
    return Math.min(...pauses.filter((pause) => pause > 0));
  }

  /** Ends the leases of the dead, and their part in the fair share. @returns who is left, and the leases that were ended */
  async end(instances: LiveInstance[]): Promise<{ living: LiveInstance[]; ended: (Lease & { owner: string })[] }> {
    const dead = await this.among(instances);
    const now = this.clock.monotonic();
    this.since = new Map(dead.map((owner) => [owner, this.since.get(owner) ?? now]));
    const over = dead.filter((owner) => now - (this.since.get(owner) as number) >= PAUSE);
    if (over.length === 0) return { living: instances, ended: [] };
    const held = (await this.store.heldLeases()).filter(({ owner }) => over.includes(owner));
    const leases = held.length === 0 ? [] : await this.store.endLeases(held);
    const isEnded = new Set(leases.map(nameOf));
    const ended = held.filter((lease) => isEnded.has(nameOf(lease)));
    // Whoever still writes under one of its leases: it is ended at a later look.
    const left = new Set(held.filter((lease) => !isEnded.has(nameOf(lease))).map(({ owner }) => owner));
    const through = over.filter((owner) => !left.has(owner));
    for (const owner of through) {
      await this.store.leave(owner);
      this.since.delete(owner);
    }
    return { living: instances.filter(({ owner }) => !through.includes(owner)), ended };
  }
}

const nameOf = ({ transport, bucket }: Lease): string => `${transport}/${bucket}`;

/** Milliseconds for an answer about processes. */
const MOST = 500;
/** Milliseconds for what the process had sent before its end. */
const PAUSE = 1_000;
