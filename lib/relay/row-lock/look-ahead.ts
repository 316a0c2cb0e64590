import type { Roles } from '../../store/outbox-store.js';
import type { LockedOutcome } from '../../store/parked-store.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

/** When the next parked row falls due, for a relay that reads what is ready and what is due in one. */
export class LookAhead {
  /** More was left than the last batch took: behind it nobody asks. */
  private wasFull = false;
  /** Milliseconds until then. */
  private nextIn: (() => number) | undefined;

  constructor(
    readonly relay: Pick<TransportRelayDependencies<Roles<'parked'>>, 'id' | 'store' | 'clock' | 'options'>,
  ) {}

  /** Before anything is locked: what falls due after this look, and before the locks, is there for a look of its own. */
  async begin(buckets: readonly number[]): Promise<void> {
    const { store, id, clock } = this.relay;
    this.nextIn = undefined;
    if (this.wasFull) return;
    const askedAt = clock.monotonic();
    const { nextIn } = await store.parked.due(id, buckets, 1);
    this.nextIn = () => (nextIn === null ? Infinity : askedAt + nextIn - clock.monotonic());
  }

  /**
   * @param written since then
   * @returns milliseconds until the next look
   */
  end(isFull: boolean, { parked, reparked }: Pick<LockedOutcome, 'parked' | 'reparked'>): number {
    this.wasFull = isFull;
    if (isFull || this.nextIn === undefined) return 0;
    const { pollInterval } = this.relay.options;
    const soonest = [...parked, ...reparked].reduce((ms, { delay }) => Math.min(ms, delay ?? Infinity), pollInterval);
    return Math.min(pollInterval, Math.max(MIN_PAUSE, Math.min(soonest, this.nextIn())));
  }
}

/** Milliseconds between two looks where one row after another falls due. */
const MIN_PAUSE = 20;
