import { within, type Clock } from '../../time/clock.js';
import { compareSeq, type Place } from '../../outbox-message.js';
import { waitedTooLong } from '../../store/database-errors.js';
import type { ReadPosition, ReadRange, ReadyStore, Snapshot, SweepResult } from '../../store/ready-store.js';
import type { LowWaterMark, Heads } from './low-water-mark.js';
import { everything, FullScan } from './full-scan.js';
import type { KnownRows } from './known-rows.js';
import { ProbedLowWaterMark } from './probed-low-water-mark.js';
import type { ProbedMark } from './probed-mark.js';
import { Reach } from './reach.js';
import type { ReadCost } from './snapshot-watch.js';

export interface FoundRows extends SweepResult {
  /** Raises the low-water mark, once what was found is in hand. */
  readonly raise: (() => void) | undefined;
  /** Says of which message that later ones of its key may have left before it. */
  readonly overtaken: string | undefined;
}
type Known = Pick<KnownRows, 'size' | 'has'>;

/**
 * Finds what became visible behind the heads since the last read. No statement of it grows with what is gone and still stands
 * in the index: wide ranges are read in slices, and a slice that is cancelled is asked for again in smaller ones.
 */
export class LateRows {
  readonly scan: FullScan;
  private readonly sweeps = new Reach(SWEEP, SWEEP_FIRST);
  private readonly probes = new Reach(SWEEP, SWEEP_FIRST);
  /** A slice of the scan met what no low-water mark allows for: all is swept, in order. */
  private all = false;
  /** What the last sweep found may be below the low-water marks, where nothing else looks. */
  private foundInAll = false;

  constructor(
    readonly store: Pick<ReadyStore, 'sweep' | 'probe'>,
    readonly transport: number,
    readonly lowWaterMark: LowWaterMark,
    readonly clock: Clock,
    /** Our own writes that are under way; a snapshot may have seen them before we do. */
    readonly ownWrites: () => Promise<unknown> | undefined,
    readonly cost?: ReadCost,
    /** Every leased bucket is looked at from the start this often: safety does not rest on the low-water mark alone. */
    fullScanEvery = 45_000,
  ) {
    this.scan = new FullScan(fullScanEvery, clock.monotonic());
  }

  /** What the last sweep found was not published: what no low-water mark leads to is swept once more. */
  lost(): void {
    this.all ||= this.foundInAll;
    this.probed?.depth.again();
  }

  /** The low-water mark where snapshots tell nothing. */
  private get probed(): ProbedLowWaterMark | undefined {
    return this.lowWaterMark instanceof ProbedLowWaterMark ? this.lowWaterMark : undefined;
  }

  /**
   * Per bucket ascending, without what is known. Only buckets whose rows are about to leave must be swept now: order is per
   * key, and a key has one bucket.
   * @param positions what the fetch read, whose snapshot it is
   */
  async find(
    snapshot: Snapshot | undefined,
    heads: Heads,
    positions: readonly ReadPosition[],
    known: Known,
  ): Promise<FoundRows> {
    let toSweep = this.lowWaterMark.toSweep(snapshot, heads);
    const writes = toSweep.length > 0 && snapshot !== undefined ? this.ownWrites() : undefined;
    if (writes !== undefined) {
      // They may hang in a lock; then the sweep is made, which is never wrong.
      await within(this.clock, OWN_WRITES, Promise.allSettled([writes]));
      toSweep = this.lowWaterMark.toSweep(snapshot, heads);
    }
    const narrow = snapshot === undefined && positions.length < heads.size;
    const read = new Set(positions.map(({ bucket }) => bucket));
    if (narrow) toSweep = toSweep.filter(({ bucket }) => read.has(bucket));
    toSweep = this.withScanned(await this.scanSlice(heads, known), toSweep, heads);
    const raise = await this.probe((bucket) => !narrow || read.has(bucket));
    const { places, complete } = toSweep.length === 0 ? NONE : await this.timed(() => this.sweep(toSweep, known));
    this.foundInAll = this.all;
    if (complete) this.all = false;
    else this.lost(); // what is left of it is as late
    return { places, complete, raise, overtaken: this.overtaken(places) };
  }

  private overtaken(places: readonly Place[]): string | undefined {
    const place = this.probed?.overtaken(places);
    return place && `a message stood at number ${place.seq}, ${HELD}`;
  }

  /** Of the full scan what is due, without what is known. */
  async scanSlice(heads: Heads, known: Known): Promise<readonly Place[]> {
    const ranges = this.scan.due(heads, this.clock.monotonic());
    if (ranges.length === 0) return [];
    const began = this.clock.monotonic();
    try {
      const { places } = await this.store.sweep(this.transport, ranges, known.size);
      const walked = this.scan.done(began, this.clock.monotonic());
      this.cost?.walked(walked);
      return places.filter(({ seq }) => !known.has(seq));
    } catch (error) {
      if (!waitedTooLong(error)) throw error;
      this.cost?.took(this.clock.monotonic() - began);
      if (this.scan.cancelled(began, this.clock.monotonic())) return [];
      throw error;
    }
  }

  /** What a slice of the scan met is not taken from there, but swept for together with what is before it. */
  private withScanned(scanned: readonly Place[], toSweep: ReadRange[], heads: Heads): ReadRange[] {
    this.all ||= scanned.some(({ bucket, seq }) => compareSeq(seq, this.lowWaterMark.of(bucket)) <= 0);
    if (this.all) return everything(heads);
    if (scanned.length === 0) return toSweep;
    const met = new Set(scanned.map(({ bucket }) => bucket));
    const again = everything(heads)
      .filter(({ bucket }) => met.has(bucket))
      .map((range) => ({ ...range, after: this.lowWaterMark.of(range.bucket) }));
    return [...toSweep.filter(({ bucket }) => !met.has(bucket)), ...again];
  }

  /** A sweep of everything says nothing of what others cost. */
  private async timed(sweep: () => Promise<SweepResult>): Promise<SweepResult> {
    const began = this.clock.monotonic();
    const result = await sweep();
    if (!this.all) this.probed?.swept(this.clock.monotonic() - began);
    return result;
  }

  private async sweep(ranges: readonly ReadRange[], known: Known): Promise<SweepResult> {
    let found: Place[] = [];
    let complete = true;
    await this.inSlices(this.sweeps, ranges, async (slice) => {
      const swept = await this.store.sweep(this.transport, slice, known.size);
      const places = swept.places.filter(({ seq }) => !known.has(seq));
      // The lowest of each bucket go first: what is above them is found once more when they are read.
      const tooMany = places.length > 0 && found.length + places.length > MOST_PLACES;
      if (!swept.complete || tooMany) {
        complete = false;
        found = places;
      } else if (places.length > 0) found = [...places, ...found];
    });
    return { places: found, complete };
  }

  /** From the upper ends of the ranges downwards; most often in one statement. */
  private async inSlices(
    reach: Reach,
    ranges: readonly ReadRange[],
    work: (slice: readonly ReadRange[]) => Promise<void>,
  ): Promise<void> {
    reach.restart();
    for (let left = ranges; left.length > 0;) {
      const { now, rest } = reach.cut(left);
      const began = this.clock.monotonic();
      try {
        await work(now);
      } catch (error) {
        if (!waitedTooLong(error)) throw error;
        this.cost?.took(this.clock.monotonic() - began);
        if (!reach.cancelled(this.clock.monotonic() - began)) throw error;
        continue;
      }
      const ms = this.clock.monotonic() - began;
      this.cost?.took(ms);
      reach.took(ms);
      left = rest;
    }
  }

  /** Where snapshots tell nothing: asks for uncommitted inserts; the low-water mark rises after the sweep that follows. */
  private async probe(which: (bucket: number) => boolean): Promise<(() => void) | undefined> {
    const raises: (() => void)[] = [];
    for (const mark of this.probed?.toRaise() ?? []) raises.push(...(await this.probeMark(mark, mark.toProbe(which))));
    return raises.length === 0 ? undefined : () => raises.forEach((raise) => raise());
  }

  private async probeMark(mark: ProbedMark, toProbe: readonly ReadRange[]): Promise<(() => void)[]> {
    if (toProbe.length === 0) return [];
    const unclean = new Set<number>();
    let at: number | undefined;
    await this.inSlices(this.probes, toProbe, async (slice) => {
      const probed = await this.store.probe?.(this.transport, slice);
      at ??= probed?.now;
      this.probed?.waits(probed?.lockWait);
      slice.forEach(({ bucket }, i) => probed?.clean[i] !== true && unclean.add(bucket));
    });
    const now = at;
    if (now === undefined) return [];
    const clean = toProbe.map(({ bucket }) => !unclean.has(bucket));
    return [() => mark.probed(toProbe, clean, now)];
  }
}

const NONE: SweepResult = { places: [], complete: true };
/** Of a row that was found by one of the sweeps that have to be rare. */
const HELD = 'whose INSERT took more than 2 s: later messages of its key may have been published before it';
/** Milliseconds that a read waits for the answers to our own writes before it sweeps for them. */
const OWN_WRITES = 20;
/** Milliseconds that a statement of a sweep should take at most. */
const SWEEP = 500;
/** Numbers that the first one covers, in each bucket: some 0.2 s if all of their rows are gone and still there. */
const SWEEP_FIRST = 200_000n;
/** Places of a sweep that is too large for one answer. */
const MOST_PLACES = 50_000;
