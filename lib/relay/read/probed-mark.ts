import { compareSeq, type OutboxMessage } from '../../outbox-message.js';
import type { ReadRange } from '../../store/ready-store.js';
import type { Heads } from './low-water-mark.js';

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
 * A low-water mark of each bucket. It rises to an earlier head when two things hold: the head is older than `age`, and a
 * dirty read of the range found no uncommitted insert in it. Time alone breaks order.
 *
 * Old is a head that was read `age` ago, or that was created so long ago and read a moment ago: else, under a backlog, what
 * is swept again and again would be all that was read within `age`.
 */
export class ProbedMark {
  readonly marks = new Map<number, string>();
  /** Per bucket ascending. */
  readonly candidates = new Map<number, Candidate[]>();
  /** The database's clock less ours, as of the last probe. */
  ahead: number | undefined;
  askedAt = 0;

  /**
   * @param age milliseconds after which no statement can hold a number that it has not inserted yet
   * @param steps so many heads within `age` may become the mark, one after the other: a probe covers what lies between two
   */
  constructor(
    readonly now: () => number,
    public age: number,
    readonly steps: number,
  ) {}

  of(bucket: number): string {
    return this.marks.get(bucket) ?? '0';
  }

  passed(heads: Heads, reached: ReadonlyMap<number, OutboxMessage>): void {
    const since = this.now();
    for (const [bucket, seq] of heads) {
      const chain = this.candidates.get(bucket) ?? [];
      const last = chain.at(-1);
      if (seq === (last?.seq ?? this.of(bucket)) || chain.length >= 2 * this.steps) continue;
      if (last !== undefined && since - last.since < this.age / this.steps) continue;
      chain.push({ seq, since, created: reached.get(bucket)?.createdAt.getTime(), tryAt: since });
      this.candidates.set(bucket, chain);
    }
  }

  /** What to probe now, of the buckets for which `which` holds. */
  toProbe(which: (bucket: number) => boolean): ReadRange[] {
    this.askedAt = this.now();
    const out: ReadRange[] = [];
    for (const [bucket, [first]] of this.candidates) {
      if (first !== undefined && which(bucket) && this.mayBeOld(first)) {
        out.push({ bucket, after: this.of(bucket), upTo: first.seq });
      }
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

  add(bucket: number): void {
    this.marks.set(bucket, '0');
  }

  forget(bucket: number): void {
    this.marks.delete(bucket);
    this.candidates.delete(bucket);
  }

  /** Reading starts again at these points: what was read above them was read for nothing. */
  rewind(points: Heads): void {
    for (const bucket of [...this.marks.keys()]) if (!points.has(bucket)) this.forget(bucket);
    for (const [bucket, point] of points) {
      if (compareSeq(this.of(bucket), point) > 0) this.marks.set(bucket, point);
      const below = this.candidates.get(bucket)?.filter(({ seq }) => compareSeq(seq, point) <= 0);
      if (below !== undefined) this.candidates.set(bucket, below);
    }
  }

  private mayBeOld({ since, created, tryAt }: Candidate): boolean {
    if (this.askedAt < tryAt) return false;
    const waited = this.askedAt - since;
    if (waited >= this.age) return true;
    if (waited < A_MOMENT || created === undefined) return false;
    return this.ahead === undefined || this.askedAt + this.ahead - created >= this.age;
  }
}

/** Milliseconds from reading a head to the probe, in which what was read is mostly settled: a settle disturbs a probe. */
const A_MOMENT = 100;
/** Milliseconds after which a range is probed again in which an uncommitted insert was, or a settle disturbed. */
const AGAIN = 500;
