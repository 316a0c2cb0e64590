import { compareSeq, lowerSeq, type OutboxMessage, type Place } from '../../outbox-message.js';
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
  readonly readsProve = false;
  readonly lower: ProbedMark;
  readonly upper: ProbedMark;
  readonly depth = new SweepDepth();
  /** Whether the sweep of this read covers all above the low-water mark. */
  deep = true;
  /** Whether one before it did not. */
  private skipped = false;
  /**
   * Buckets that joined at both marks while the low-water mark is still at 0: an INSERT may hold a number up to there, for which
   * no sweep looks.
   */
  readonly unproved = new Map<number, string>();

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

  passed(_snapshot: undefined, heads: Heads, reached: ReadonlyMap<number, OutboxMessage>): void {
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
    return places.find(({ bucket, seq }) => {
      const until = this.skipped ? this.upper.of(bucket) : (this.unproved.get(bucket) ?? '0');
      return compareSeq(seq, until) <= 0;
    });
  }

  wrote(): void {}

  add(bucket: number): void {
    this.unproved.delete(bucket);
    this.lower.add(bucket);
    this.upper.add(bucket);
  }

  /** It is read from there on; nothing can appear below but what an INSERT holds for more than 2 s. */
  join(bucket: number, mark: string): void {
    this.lower.marks.set(bucket, mark);
    this.upper.marks.set(bucket, mark);
    this.unproved.set(bucket, mark);
  }

  /** Nothing can appear below where the bucket joined. */
  proved(bucket: number): void {
    this.unproved.delete(bucket);
  }

  forget(bucket: number): void {
    this.unproved.delete(bucket);
    this.lower.forget(bucket);
    this.upper.forget(bucket);
  }

  restart(points: Heads): void {
    for (const [bucket, mark] of [...this.unproved]) {
      const point = lowerSeq(mark, points.get(bucket) ?? '0');
      if (point === '0') this.unproved.delete(bucket);
      else this.unproved.set(bucket, point);
    }
    this.lower.restart(points);
    this.upper.restart(points);
  }

  rewind(points: Heads): void {
    this.restart(points);
  }

  of(bucket: number): string {
    return this.unproved.has(bucket) ? '0' : this.lower.of(bucket);
  }

  sweptFrom(bucket: number, met: string): string {
    const mark = this.lower.of(bucket);
    return compareSeq(met, mark) > 0 ? mark : this.of(bucket);
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
