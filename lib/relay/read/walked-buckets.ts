import { compareSeq, type Place } from '../../outbox-message.js';
import { waitedTooLong } from '../../store/database-errors.js';
import type { ReadRange, ReadyStore, Snapshot } from '../../store/ready-store.js';
import type { Clock } from '../../time/clock.js';
import { ranges, type Heads } from './low-water-mark.js';
import type { KnownRows } from './known-rows.js';
import { Reach } from './reach.js';
import type { ReadCost } from './read-cost.js';
import type { SnapshotLowWaterMark } from './snapshot-low-water-mark.js';

interface Walked {
  /** What the walk found. */
  kept: Place[];
  /** All that this snapshot sees is in `kept`, or was handed over. */
  asOf: Snapshot | undefined;
  /** As of which the walk under way will be through. */
  next: Snapshot | undefined;
  /** What it has not looked at. */
  left: ReadRange | undefined;
  /** Somebody met a row that no transaction explains: the walk begins at the low-water mark. */
  fromLowWaterMark: boolean;
  /** Walks that were through, and behind which as much was to be looked at again. */
  walks: number;
  /** Nothing of it leaves before the walk is through. */
  held: boolean;
}

interface Seen {
  readonly heads: Heads;
  readonly known: Pick<KnownRows, 'size' | 'has'>;
  readonly last: string | undefined;
}

/**
 * Buckets behind whose head a sweep has too much to look at for one read. None of their rows may leave before all of it was
 * looked at: the row that is looked for may stand anywhere in it, and go before each of them. But a key has one bucket: so
 * buckets are walked one after the other, a slice in a read, and others are read between two slices.
 *
 * A walk finds what a snapshot sees that is older than each of its slices, and that leaves. What finished since then, the
 * read that follows sweeps for.
 */
export class WalkedBuckets {
  /** Who waits longest comes first. */
  readonly buckets = new Map<number, Walked>();
  private readonly reach = new Reach(SLICE, FIRST);
  cost: ReadCost | undefined;
  /** Of the last read, also of one of which nothing went out. */
  latest: Snapshot | undefined;

  constructor(
    readonly store: Pick<ReadyStore, 'sweep'>,
    readonly transport: number,
    readonly lowWaterMark: SnapshotLowWaterMark,
    readonly clock: Clock,
  ) {}

  /** Whether nothing of the bucket may leave yet. */
  holds(bucket: number): boolean {
    return this.buckets.get(bucket)?.held === true;
  }

  get held(): ReadonlySet<number> {
    if (this.buckets.size === 0) return NOBODY;
    return new Set([...this.buckets.keys()].filter((bucket) => this.holds(bucket)));
  }

  /** Of the buckets whose walk is through: as of when. */
  get asOf(): ReadonlyMap<number, Snapshot> {
    const out = new Map<number, Snapshot>();
    for (const [bucket, { asOf }] of this.buckets) if (asOf !== undefined) out.set(bucket, asOf);
    return out;
  }

  /**
   * A sweep had no time for it; its turn is the last.
   * @param fromFloor all above the low-water mark is to be looked at, whoever ended
   */
  add(bucket: number, fromLowWaterMark = false): void {
    const { kept = [], asOf, walks = 0 } = this.buckets.get(bucket) ?? {};
    this.buckets.delete(bucket);
    this.buckets.set(bucket, { kept, asOf, next: undefined, left: undefined, fromLowWaterMark, walks, held: true });
  }

  /** Where long transactions end all the time, walks are never enough: its sweep is made to the end. */
  mustEnd(bucket: number): boolean {
    return (this.buckets.get(bucket)?.walks ?? 0) >= MOST_WALKS;
  }

  forget(bucket: number): void {
    this.buckets.delete(bucket);
  }

  /** What was found is lost, or holds no longer. */
  clear(): void {
    this.latest = undefined;
    this.buckets.clear();
  }

  /** What a walk has found; it is handed over, and leaves before anything else of its bucket does. */
  private take(known: Pick<KnownRows, 'has'>): { places: Place[]; seen: Snapshot } | undefined {
    for (const { held, kept, asOf } of this.buckets.values()) {
      const places = held ? [] : kept.splice(0).filter(({ seq }) => !known.has(seq));
      if (places.length > 0 && asOf !== undefined) return { places, seen: asOf };
    }
    return undefined;
  }

  /** What was found of the buckets that were read is in hand. */
  passed(): void {
    for (const bucket of [...this.buckets.keys()]) if (!this.holds(bucket)) this.buckets.delete(bucket);
  }

  /**
   * One slice for who waits longest.
   * @param last the last number that was given out, if that is known
   * @param only of this bucket all, as no other is read
   * @returns what was found of a bucket that is through, and is to leave first
   */
  async goOn(
    heads: Heads,
    known: Pick<KnownRows, 'size' | 'has'>,
    last?: string,
    only?: number,
  ): Promise<{ places: Place[]; seen: Snapshot } | undefined> {
    do {
      const bucket = only ?? [...this.buckets.keys()].find((each) => this.holds(each));
      if (bucket === undefined || !this.holds(bucket)) break;
      await this.walk(bucket, this.buckets.get(bucket) as Walked, { heads, known, last });
    } while (only !== undefined);
    return this.take(known);
  }

  private async walk(bucket: number, walked: Walked, seen: Seen): Promise<void> {
    const { known } = seen;
    if (walked.left === undefined && !this.begin(bucket, walked, seen)) return;
    const { now, rest } = this.reach.cut([walked.left as ReadRange]);
    const began = this.clock.monotonic();
    try {
      const { places, complete } = await this.store.sweep(this.transport, now, known.size);
      this.cost?.walked(this.reach.took(this.clock.monotonic() - began));
      const isAbove = compareSeq(now[0]?.after ?? '0', seen.heads.get(bucket) ?? '0') >= 0;
      if (!complete && isAbove) walked.kept = []; // the lowest come, and what is above them is read later
      for (const place of places) if (!known.has(place.seq)) walked.kept.push(place);
      if (isAbove) cut(walked.kept);
      else if (!complete || walked.kept.length > 2 * MOST_PLACES) return this.leave(walked);
      if (rest[0] === undefined) this.through(walked);
      else walked.left = rest[0];
    } catch (error) {
      if (!waitedTooLong(error)) throw error;
      this.cost?.took(this.clock.monotonic() - began);
      if (!this.reach.cancelled(this.clock.monotonic() - began)) throw error;
    }
  }

  /** @returns whether there is anything to look at */
  private begin(bucket: number, walked: Walked, { heads, last }: Seen): boolean {
    const { lowWaterMark } = this;
    const seq = heads.get(bucket) ?? '0';
    const head = new Map([[bucket, seq]]);
    const seen = this.latest ?? lowWaterMark.previous;
    const [range] = walked.fromLowWaterMark
      ? ranges((each) => lowWaterMark.of(each), head)
      : lowWaterMark.toSweep(seen, head, this.asOf);
    walked.next = seen;
    // Rows that were not read wait behind the same walk: they are found with it.
    walked.left = range && { ...range, upTo: higher(seq, last ?? seq) };
    if (range === undefined) this.through(walked);
    else this.reach.restart();
    return range !== undefined;
  }

  private through(walked: Walked): void {
    walked.asOf = walked.next;
    walked.kept.sort((a, b) => compareSeq(a.seq, b.seq));
    walked.left = undefined;
    walked.held = false;
    walked.walks += 1;
  }

  /** More than one answer should bring: a sweep brings the lowest first, and the others once more. */
  private leave(walked: Walked): void {
    walked.asOf = undefined;
    walked.left = undefined;
    walked.kept = [];
    walked.held = false;
    walked.walks = MOST_WALKS;
  }
}

const NOBODY: ReadonlySet<number> = new Set();
const higher = (a: string, b: string): string => (compareSeq(a, b) > 0 ? a : b);

/** The lowest remain. */
function cut(places: Place[]): void {
  if (places.length <= MOST_PLACES) return;
  places.sort((a, b) => compareSeq(a.seq, b.seq));
  places.length = MOST_PLACES;
}

/** Milliseconds of a slice, for which the others stand still. */
const SLICE = 20;
/** Numbers that the first slice covers. */
const FIRST = 16_384n;
const MOST_WALKS = 2;
/** Places of a bucket in memory. */
const MOST_PLACES = 50_000;
