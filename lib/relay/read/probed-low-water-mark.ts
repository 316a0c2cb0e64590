import { compareSeq, type OutboxMessage, type Place } from '../../outbox-message.js';
import type { ReadRange } from '../../store/ready-store.js';
import { ranges, type LowWaterMark, type Heads } from './low-water-mark.js';
import { ProbedMark } from './probed-mark.js';
import { SweepDepth } from './sweep-depth.js';

/**
 * The low-water mark where a read proves nothing about open transactions (MySQL, MariaDB): everything above it is swept with
 * every fetch, keys only.
 *
 * A statement takes its numbers with its first row, and may wait for a lock, or for a disk, before it inserts any: no probe
 * sees them. So the low-water mark passes a number only after the longest wait for a lock. What it has not passed is mostly settled,
 * and costs a sweep nothing. Where it does cost, because rows that are gone still stand in the index, most sweeps begin at a
 * second, upper mark, which allows a statement 2 s.
 */
export class ProbedLowWaterMark implements LowWaterMark {
  /** No transaction id says anything here. */
  readonly asksFence = false;
  readonly lower: ProbedMark;
  readonly upper: ProbedMark;
  readonly depth = new SweepDepth();
  /** Whether the sweep of this read covers all above the low-water mark. */
  deep = true;
  /** Whether one before it did not. */
  private skipped = false;

  /**
   * @param upperAge milliseconds that a statement has where sweeps are costly
   * @param age milliseconds after which no statement can hold a number that it has not inserted yet, at least
   */
  constructor(
    readonly now: () => number,
    upperAge = 2_000,
    readonly age = 60_000,
  ) {
    this.lower = new ProbedMark(now, age, STEPS);
    this.upper = new ProbedMark(now, upperAge, 1);
  }

  toSweep(_snapshot: undefined, heads: Heads): ReadRange[] {
    this.skipped = this.depth.skipped;
    this.deep = this.depth.isDeep(this.now());
    const mark = this.deep ? this.lower : this.upper;
    return ranges((bucket) => mark.of(bucket), heads);
  }

  /** @param ms that the sweep took */
  swept(ms: number): void {
    this.depth.took(this.deep, ms, this.now());
  }

  passed(_fetched: unknown, heads: Heads, reached: ReadonlyMap<number, OutboxMessage>): void {
    this.lower.passed(heads, reached);
    this.upper.passed(heads, reached);
  }

  /** Marks that may rise after this read: the lower one only behind a sweep of all above it. */
  toRaise(): ProbedMark[] {
    return this.deep ? [this.upper, this.lower] : [this.upper];
  }

  /** @param lockWait milliseconds that a statement waits for a lock before it fails */
  waits(lockWait: number | undefined): void {
    this.lower.age = Math.max(this.age, (lockWait ?? 0) + MARGIN);
  }

  /** The first of these that was found in no sweep of the upper mark: later messages of its key may have left before it. */
  overtaken(places: readonly Place[]): Place | undefined {
    return this.skipped ? places.find(({ bucket, seq }) => compareSeq(seq, this.upper.of(bucket)) <= 0) : undefined;
  }

  wrote(): void {}

  add(bucket: number): void {
    this.lower.add(bucket);
    this.upper.add(bucket);
  }

  forget(bucket: number): void {
    this.lower.forget(bucket);
    this.upper.forget(bucket);
  }

  rewind(points: Heads): void {
    this.lower.rewind(points);
    this.upper.rewind(points);
  }

  of(bucket: number): string {
    return this.lower.of(bucket);
  }

  rewindTo(bucket: number): string {
    const [lower, upper] = [this.lower.of(bucket), this.upper.of(bucket)];
    return compareSeq(lower, upper) < 0 ? upper : lower;
  }
}

/** Of the heads that were read within the age of the lower mark, so many are kept. */
const STEPS = 16;
/** Milliseconds for a statement beyond its wait for a lock. */
const MARGIN = 10_000;
