import type { OutboxMessage } from '../message.js';
import type { ReadRange } from '../store/ready-store.js';
import { ranges, type Floor, type Heads } from './floor.js';

/** A head that may become floor. */
interface Candidate {
  readonly seq: string;
  /** Monotonic, when it was read. */
  readonly since: number;
  /** By the database's clock; `undefined` when the row itself is not at hand. */
  readonly created: number | undefined;
}

/**
 * The floor where a read proves nothing about open transactions (MySQL, MariaDB): everything above it is swept with
 * every fetch, keys only. It is raised to an earlier head when two things hold: the head is older than any statement that
 * took its auto-increment number but had not inserted yet, and a dirty read of the range found no uncommitted insert in
 * it. Time alone breaks order.
 *
 * Old is a head that was read `age` ago, or that was created so long ago and read a moment ago: else, under a backlog, what
 * is swept again and again would be all that was read within `age`.
 */
export class ProbeFloor implements Floor {
  readonly floors = new Map<number, string>();
  readonly candidates = new Map<number, Candidate>();
  /** The database's clock less ours, as of the last probe. */
  ahead: number | undefined;
  askedAt = 0;

  /** @param age milliseconds after which no statement can hold a number that it has not inserted yet */
  constructor(
    readonly now: () => number,
    readonly age = 2_000,
  ) {}

  toSweep(_snapshot: undefined, heads: Heads): ReadRange[] {
    return ranges((bucket) => this.floorOf(bucket), heads);
  }

  passed(_snapshot: undefined, heads: Heads, reached: ReadonlyMap<number, OutboxMessage>): void {
    const since = this.now();
    for (const [bucket, seq] of heads) {
      if (this.candidates.has(bucket) || seq === this.floorOf(bucket)) continue;
      const last = reached.get(bucket);
      this.candidates.set(bucket, { seq, since, created: last?.createdAt.getTime() });
    }
  }

  /** What to probe now, of the buckets for which `which` holds. */
  toProbe(which: (bucket: number) => boolean): ReadRange[] {
    this.askedAt = this.now();
    const out: ReadRange[] = [];
    for (const [bucket, candidate] of this.candidates) {
      if (which(bucket) && this.mayBeOld(candidate)) {
        out.push({ bucket, after: this.floorOf(bucket), upTo: candidate.seq });
      }
    }
    return out;
  }

  /**
   * The ranges were probed, and after that swept: those without an uncommitted insert become floor.
   * @param at the database's clock at the probe
   */
  probed(tested: readonly ReadRange[], clean: readonly boolean[], at: number): void {
    this.ahead = at - this.askedAt;
    tested.forEach(({ bucket, upTo }, i) => {
      const candidate = this.candidates.get(bucket);
      if (candidate?.seq !== upTo) return; // the bucket was given up meanwhile
      const old = this.askedAt - candidate.since >= this.age || (candidate.created ?? Infinity) <= at - this.age;
      if (clean[i] === true && old) this.floors.set(bucket, upTo);
      if (clean[i] !== true || old) this.candidates.delete(bucket);
    });
  }

  wrote(): void {}

  add(bucket: number): void {
    this.floors.set(bucket, '0');
  }

  forget(bucket: number): void {
    this.floors.delete(bucket);
    this.candidates.delete(bucket);
  }

  restart(points: Heads): void {
    this.floors.clear();
    for (const [bucket, seq] of points) this.floors.set(bucket, seq);
    this.candidates.clear();
  }

  floorOf(bucket: number): string {
    return this.floors.get(bucket) ?? '0';
  }

  /** @internal */ mayBeOld({ since, created }: Candidate): boolean {
    const waited = this.askedAt - since;
    if (waited >= this.age) return true;
    if (waited < A_MOMENT || created === undefined) return false;
    return this.ahead === undefined || this.askedAt + this.ahead - created >= this.age;
  }
}

/** Milliseconds from reading a head to the probe, in which what was read is mostly settled: a settle disturbs a probe. */
const A_MOMENT = 100;
