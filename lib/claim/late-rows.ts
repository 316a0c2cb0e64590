import { within, type Clock } from '../dispatch/clock.js';
import type { ReadPosition, ReadyStore, Snapshot, SweepResult } from '../store/ready-store.js';
import type { Floor, Heads } from './floor.js';
import { ProbeFloor } from './probe-floor.js';

export interface FoundRows extends SweepResult {
  /** Raises the floor, once what was found is in hand. */
  readonly raise: (() => void) | undefined;
}

/** Finds what became visible behind the heads since the last read. */
export class LateRows {
  /** @internal */ scannedAt: number;

  constructor(
    readonly store: Pick<ReadyStore, 'sweep' | 'probe'>,
    readonly transport: number,
    readonly floor: Floor,
    readonly clock: Clock,
    /** Our own writes that are under way; a snapshot may have seen them before we do. */
    readonly ownWrites: () => Promise<unknown> | undefined,
    /** Every leased bucket is swept from the start this often: safety does not rest on the floor alone. */
    readonly fullScanEvery = 45_000,
  ) {
    this.scannedAt = clock.monotonic();
  }

  /** The next look is at everything. */
  scanAll(): void {
    this.scannedAt = -Infinity;
  }

  /**
   * Per bucket ascending. Only buckets whose rows are about to leave must be swept now: order is per key, and a key has
   * one bucket.
   * @param positions what the fetch read, whose snapshot it is
   * @param known rows that were read and are not settled: a sweep that returned nothing else would end all reading
   */
  async find(
    snapshot: Snapshot | undefined,
    heads: Heads,
    positions: readonly ReadPosition[],
    known: number,
  ): Promise<FoundRows> {
    let toSweep = this.floor.toSweep(snapshot, heads);
    const writes = toSweep.length > 0 && snapshot !== undefined ? this.ownWrites() : undefined;
    if (writes !== undefined) {
      // They may hang in a lock; then the sweep is made, which is never wrong.
      await within(this.clock, OWN_WRITES, Promise.allSettled([writes]));
      toSweep = this.floor.toSweep(snapshot, heads);
    }
    const narrow = snapshot === undefined && positions.length < heads.size;
    const read = new Set(positions.map(({ bucket }) => bucket));
    if (narrow) toSweep = toSweep.filter(({ bucket }) => read.has(bucket));
    const now = this.clock.monotonic();
    if (now - this.scannedAt >= this.fullScanEvery) {
      this.scannedAt = now;
      toSweep = [...heads].filter(([, head]) => head !== '0').map(([bucket, upTo]) => ({ bucket, after: '0', upTo }));
    }
    const raise = await this.probe((bucket) => !narrow || read.has(bucket));
    const { places, complete } = toSweep.length === 0 ? NONE : await this.store.sweep(this.transport, toSweep, known);
    return { places, complete, raise };
  }

  /** Where snapshots tell nothing: asks for uncommitted inserts; the floor rises after the sweep that follows. @internal */
  async probe(which: (bucket: number) => boolean): Promise<(() => void) | undefined> {
    if (!(this.floor instanceof ProbeFloor) || this.store.probe === undefined) return undefined;
    const floor = this.floor;
    const toProbe = floor.toProbe(which);
    if (toProbe.length === 0) return undefined;
    const { clean, now } = await this.store.probe(this.transport, toProbe);
    return () => floor.probed(toProbe, clean, now);
  }
}

const NONE: SweepResult = { places: [], complete: true };
/** Milliseconds that a read waits for the answers to our own writes before it sweeps for them. */
const OWN_WRITES = 20;
