import { compareSeq, type OutboxMessage } from '../../outbox-message.js';
import type { ReadRange } from '../../store/ready-store.js';
import { ranges, type LowWaterMark, type Heads } from './low-water-mark.js';

/** A head to which the mark may rise. */
interface Candidate {
  readonly seq: string;
  /** Monotonic, when it was read. */
  readonly since: number;
  /** By the database's clock; `undefined` when the row itself is not at hand. */
  readonly created: number | undefined;
  /** Monotonic; a range with an uncommitted insert is looked at again, and not with every read. */
  readonly tryAt: number;
}

/**
 * The low-water mark where a read proves nothing about open transactions (MySQL, MariaDB): everything above it is swept with
 * every fetch, keys only.
 *
 * A mark rises to an earlier head when two things hold: the head is older than `age`, and a dirty read of the range found no
 * uncommitted insert in it. Time alone breaks order. A statement takes its numbers with its first row, and may wait for a lock, or for
 * a disk, before it inserts any: no probe sees them. So `age` is the longest wait for a lock, and some time for the statement.
 *
 * Old is a head that was read `age` ago, or that was created so long ago and read a moment ago: else, under a backlog, what
 * is swept again and again would be all that was read within `age`.
 */
export class ProbedLowWaterMark implements LowWaterMark {
  /** No transaction id says anything here. */
  readonly asksFence = false;
  readonly marks = new Map<number, string>();
  /** Per bucket ascending. */
  readonly candidates = new Map<number, Candidate[]>();
  /** Milliseconds after which no statement can hold a number that it has not inserted yet. */
  private age: number;
  /** The database's clock less ours, as of the last probe. */
  private ahead: number | undefined;
  private askedAt = 0;

  /** @param least milliseconds of `age`, at least */
  constructor(
    readonly now: () => number,
    readonly least = 60_000,
  ) {
    this.age = least;
  }

  toSweep(_snapshot: undefined, heads: Heads): ReadRange[] {
    return ranges((bucket) => this.of(bucket), heads);
  }

  passed(_fetched: unknown, heads: Heads, reached: ReadonlyMap<number, OutboxMessage>): void {
    const since = this.now();
    for (const [bucket, seq] of heads) {
      const chain = this.candidates.get(bucket) ?? [];
      const last = chain.at(-1);
      if (compareSeq(seq, last?.seq ?? this.of(bucket)) <= 0 || chain.length >= 2 * STEPS) continue;
      if (last !== undefined && since - last.since < this.age / STEPS) continue;
      chain.push({ seq, since, created: reached.get(bucket)?.createdAt.getTime(), tryAt: since });
      this.candidates.set(bucket, chain);
    }
  }

  /** What to probe now, of the buckets for which `which` holds: nothing beyond a head, as the sweep that follows ends there. */
  toProbe(which: (bucket: number) => boolean, heads: Heads): ReadRange[] {
    this.askedAt = this.now();
    const out: ReadRange[] = [];
    for (const [bucket, [first]] of this.candidates) {
      if (first === undefined || !which(bucket) || compareSeq(first.seq, heads.get(bucket) ?? '0') > 0) continue;
      if (this.mayBeOld(first)) out.push({ bucket, after: this.of(bucket), upTo: first.seq });
    }
    return out;
  }

  /**
   * The ranges were probed, and after that swept: the mark passes those without an uncommitted insert.
   * @param at the database's clock at the probe
   */
  probed(tested: readonly ReadRange[], clean: readonly boolean[], at: number): void {
    this.ahead = at - this.askedAt;
    tested.forEach(({ bucket, upTo }, i) => {
      const chain = this.candidates.get(bucket) ?? [];
      const [first] = chain;
      if (first?.seq !== upTo) return; // the bucket was given up meanwhile
      const old = this.askedAt - first.since >= this.age || (first.created ?? Infinity) <= at - this.age;
      if (clean[i] === true && old) {
        this.marks.set(bucket, upTo);
        chain.shift();
      } else chain[0] = { ...first, tryAt: this.askedAt + (clean[i] === true ? 0 : AGAIN) };
    });
  }

  /** @param lockWait milliseconds that a statement waits for a lock before it fails */
  waits(lockWait: number | undefined): void {
    this.age = Math.max(this.least, (lockWait ?? 0) + MARGIN);
  }

  wrote(): void {}

  add(bucket: number): void {
    this.marks.set(bucket, '0');
  }

  forget(bucket: number): void {
    this.marks.delete(bucket);
    this.candidates.delete(bucket);
  }

  /** When a head was read stays true, also where reading starts again below it. */
  rewind(points: Heads): void {
    for (const bucket of [...this.marks.keys()]) if (!points.has(bucket)) this.forget(bucket);
    for (const [bucket, point] of points) if (compareSeq(this.of(bucket), point) > 0) this.marks.set(bucket, point);
  }

  of(bucket: number): string {
    return this.marks.get(bucket) ?? '0';
  }

  private mayBeOld({ since, created, tryAt }: Candidate): boolean {
    if (this.askedAt < tryAt) return false;
    const waited = this.askedAt - since;
    if (waited >= this.age) return true;
    if (waited < A_MOMENT || created === undefined) return false;
    return this.ahead === undefined || this.askedAt + this.ahead - created >= this.age;
  }
}

/** Of the heads that were read within `age` so many may become the mark, one after the other: a probe covers what lies between two. */
const STEPS = 16;
/** Milliseconds for a statement beyond its wait for a lock. */
const MARGIN = 10_000;
/** Milliseconds from reading a head to the probe, in which what was read is mostly settled: a settle disturbs a probe. */
const A_MOMENT = 100;
/** Milliseconds after which a range is probed again in which an uncommitted insert was, or a settle disturbed. */
const AGAIN = 500;
