import { compareSeq } from '../../outbox-message.js';
import type { FetchResult, ReadRange, Snapshot } from '../../store/ready-store.js';
import { ranges, type LowWaterMark, type Heads } from './low-water-mark.js';

interface Checkpoint {
  readonly heads: Map<number, string>;
  readonly reads: number;
  fence: bigint | undefined;
}

/**
 * The low-water mark where a read returns its snapshot (PostgreSQL).
 *
 * A row's transaction id is assigned before its `seq` (column order), ids only grow, and the relay's own writes yield ids
 * (fences) too. So with a fence F that was assigned after a read had returned heads H:
 * - a transaction with an id ≥ F can only insert above H;
 * - a snapshot with xmax > F lists every transaction below F that is still open; when none is, H is a low-water mark.
 * `xmin = xmax` alone proves nothing: an open transaction at or above xmax may hold a seq below the head (tried).
 *
 * Since the previous read, a row can have become visible only through a transaction that finished in between. When only
 * our own did, nothing is swept; else the sweep starts at the highest H whose fence is not above the oldest of them. So
 * one endless transaction pins the low-water mark but does not make every sweep start there.
 *
 * A bucket that is read from its beginning may have no write of ours for long, and millions of rows that are gone below its
 * head. So the first read of it brings a fence of its own: nothing younger inserts below the last number, wherever the head is.
 */
export class SnapshotLowWaterMark implements LowWaterMark {
  readonly lowWaterMarks = new Map<number, string>();
  previous: Snapshot | undefined;
  /** Ascending; those at the end wait for a fence: a write that began before them has not been answered yet. */
  checkpoints: Checkpoint[] = [];
  /** Our own transactions that the previous snapshot may not have seen finished. */
  own = new Set<bigint>();
  /** Reads that went through `passed`. */
  reads = 0;
  asksFence = false;

  toSweep(snapshot: Snapshot | undefined, heads: Heads): ReadRange[] {
    if (snapshot === undefined || this.previous === undefined) return [];
    const oldest = oldestFinishedBetween(this.previous, snapshot, this.own);
    if (oldest === undefined) return [];
    let from: Heads = this.lowWaterMarks;
    for (const { fence, heads: reached } of this.checkpoints) {
      if (fence === undefined || fence > oldest) break;
      from = reached;
    }
    return ranges((bucket) => higher(from.get(bucket) ?? '0', this.of(bucket)), heads);
  }

  passed({ snapshot, source, fence }: Pick<FetchResult, 'snapshot' | 'source' | 'fence'>, heads: Heads): void {
    if (snapshot === undefined) return;
    this.previous = snapshot;
    this.reads += 1;
    const xmin = BigInt(snapshot.xmin);
    for (const id of this.own) if (id < xmin) this.own.delete(id);
    this.raise(snapshot);
    if (fence !== undefined) {
      this.asksFence = false;
      if (source?.last !== undefined) this.fenced(fence, source.last, heads);
    } else {
      const last = this.checkpoints.at(-1);
      const waiting = this.checkpoints.at(-MAX_WAITING);
      if ((waiting === undefined || waiting.fence !== undefined) && !same(last?.heads ?? this.lowWaterMarks, heads))
        this.checkpoints.push({ heads: new Map(heads), reads: this.reads, fence: undefined });
    }
    if (this.checkpoints.length > MAX_CHECKPOINTS) this.thinOut();
  }

  /** A transaction with this id or a higher one inserts above `last`, in whatever bucket. */
  private fenced(fence: string, last: string, heads: Heads): void {
    this.wrote(fence, this.reads);
    const ends = [...heads.keys()].map((bucket): [number, string] => [bucket, last]);
    this.checkpoints.push({ heads: new Map(ends), reads: this.reads, fence: BigInt(fence) });
  }

  wrote(fence: string | undefined, readsBefore: number): void {
    if (fence === undefined) return;
    const id = BigInt(fence);
    // A bound, not a window: what is dropped costs one needless sweep.
    if (this.own.size < MAX_OWN) this.own.add(id);
    const first = this.checkpoints.findIndex((each) => each.fence === undefined);
    const newest = this.checkpoints.findLastIndex((each) => each.fence === undefined && each.reads <= readsBefore);
    if (newest < 0) return;
    (this.checkpoints[newest] as Checkpoint).fence = id;
    this.checkpoints.splice(first, newest - first); // the same fence serves the newest of them best
  }

  add(bucket: number): void {
    this.asksFence = true;
    this.lowWaterMarks.set(bucket, '0');
  }

  /** Also from the checkpoints: leased again, the bucket is read from the start, and its low-water mark with it. */
  forget(bucket: number): void {
    this.lowWaterMarks.delete(bucket);
    for (const { heads } of this.checkpoints) heads.delete(bucket);
  }

  /** What is given back does not appear: it was there. */
  rewind(): void {
    this.checkpoints = [];
    this.previous = undefined;
    this.own.clear();
    this.asksFence ||= [...this.lowWaterMarks.values()].includes('0');
  }

  rewindTo(bucket: number): string {
    return this.of(bucket);
  }

  of(bucket: number): string {
    return this.lowWaterMarks.get(bucket) ?? '0';
  }

  private raise(snapshot: Snapshot): void {
    const xmax = BigInt(snapshot.xmax);
    const open =
      snapshot.open.length === 0 ? xmax : BigInt(snapshot.open.reduce((a, b) => (BigInt(a) < BigInt(b) ? a : b)));
    let resolved = 0;
    for (const { fence, heads } of this.checkpoints) {
      if (fence === undefined || fence >= xmax || fence > open) break;
      for (const [bucket, head] of heads) {
        const lowWaterMark = this.lowWaterMarks.get(bucket);
        // a head may still be below its low-water mark
        if (lowWaterMark !== undefined) this.lowWaterMarks.set(bucket, higher(head, lowWaterMark));
      }
      resolved += 1;
    }
    this.checkpoints.splice(0, resolved);
  }

  /** Dropping a checkpoint only makes a range larger. */
  private thinOut(): void {
    this.checkpoints = this.checkpoints.filter((_, i, all) => i % 2 === 0 || i === all.length - 1);
  }
}

const higher = (a: string, b: string): string => (compareSeq(a, b) > 0 ? a : b);
/** Under an endless open transaction: 64 × 32 buckets × some 60 bytes. */
const MAX_CHECKPOINTS = 64;
const MAX_OWN = 4096;
/** Reads that may pass while one write is under way, and still be fenced by the next. */
const MAX_WAITING = 4;

function same(a: Heads, b: Heads): boolean {
  if (a.size !== b.size) return false;
  for (const [bucket, seq] of a) if (b.get(bucket) !== seq) return false;
  return true;
}

/** The lowest id, none of ours, that was open or not yet known in `before` and is finished in `after`. */
export function oldestFinishedBetween(before: Snapshot, after: Snapshot, own: ReadonlySet<bigint>): bigint | undefined {
  const stillOpen = new Set(after.open);
  const finished = before.open.filter((id) => !stillOpen.has(id) && !own.has(BigInt(id))).map(BigInt);
  if (finished.length > 0) return finished.reduce((oldest, id) => (id < oldest ? id : oldest));
  const end = BigInt(after.xmax);
  for (let id = BigInt(before.xmax); id < end; id += 1n) {
    if (!own.has(id) && !stillOpen.has(id.toString())) return id;
  }
  return undefined;
}
