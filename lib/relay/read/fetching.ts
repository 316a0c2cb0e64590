import { waitedTooLong } from '../../store/database-errors.js';
import type { FetchResult, ReadPosition, ReadyStore } from '../../store/ready-store.js';
import type { Clock } from '../../time/clock.js';
import type { LateRows } from './late-rows.js';
import { isBounded, type Walks } from './walks.js';

/** Who reads, as far as a fetch concerns it. */
interface Reader {
  readonly store: Pick<ReadyStore, 'fetch'>;
  readonly transport: number;
  readonly clock: Clock;
  readonly lateRows: LateRows;
  readonly walks: Walks | undefined;
  /** Bucket → the number up to which it was read. */
  readonly heads: Map<number, string>;
  /** Buckets of which more is waiting. */
  readonly full: ReadonlySet<number>;
  /** Whether the bucket is ours, and its beginning is known. */
  isRead(bucket: number): boolean;
  add(bucket: number): void;
  forget(bucket: number): void;
}

export interface Fetched extends FetchResult {
  /** Milliseconds. */
  readonly took: number;
}

/** @param full buckets of which more is waiting */
export function rowsPerBucket(full: number, limit: number, buckets: number): number {
  const fair = full === 0 ? MIN_PER_BUCKET : Math.ceil(limit / Math.min(full, buckets));
  return Math.min(limit, Math.max(MIN_PER_BUCKET, fair));
}

/** One read of the heads. @returns `undefined` where it took too long, and the next one asks for less */
export async function fetchHeads(
  reader: Reader,
  positions: readonly ReadPosition[],
  most: { perBucket: number; limit: number },
): Promise<Fetched | undefined> {
  const { store, transport, clock, lateRows, walks } = reader;
  const within = walks?.limitOf(positions);
  const fetch = () => store.fetch({ transport, positions, ...most, within });
  const began = clock.monotonic();
  try {
    const fetched = await (lateRows.cost?.measure(fetch) ?? fetch());
    return { ...fetched, took: clock.monotonic() - began };
  } catch (error) {
    if (walks === undefined || !waitedTooLong(error)) throw error;
    // To the end it takes as long as any statement may, and would again.
    if (within === undefined) lookForBeginnings(reader, positions);
    if (walks.cancelled(positions, clock.monotonic() - began)) return undefined;
    throw error;
  }
}

/** Of the buckets that were read to the end, and are still ours. */
function lookForBeginnings(reader: Reader, positions: readonly ReadPosition[]): void {
  for (const position of positions) {
    const { bucket } = position;
    if (isBounded(position) || !reader.isRead(bucket)) continue;
    reader.forget(bucket);
    reader.add(bucket);
  }
}

/** Heads pass what a bounded read covered, where nothing more is in it. @returns whether one did: more may be behind it */
export function passWalked(
  reader: Reader,
  { messages, took }: Fetched,
  positions: readonly ReadPosition[],
  limit: number,
): boolean {
  const { walks, full, heads } = reader;
  if (walks === undefined) return false;
  const isWhole = (bucket: number): boolean => messages.length < limit && !full.has(bucket) && reader.isRead(bucket);
  const points = walks.read(positions, messages.length, took, isWhole);
  for (const [bucket, seq] of points) heads.set(bucket, seq);
  return points.size > 0;
}

/** Rows per bucket when all of them have some: 32 × 16 = 512, one batch. */
const MIN_PER_BUCKET = 16;
