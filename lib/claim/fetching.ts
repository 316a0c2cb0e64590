import { waitedTooLong } from '../read-errors.js';
import type { FetchResult, ReadPosition } from '../store/ready-store.js';
import type { Claimer } from './claimer.js';
import { isBounded } from './walks.js';

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
  claimer: Claimer,
  positions: readonly ReadPosition[],
  most: { perBucket: number; limit: number },
): Promise<Fetched | undefined> {
  const { store, transport, clock, lateRows, walks } = claimer;
  const within = walks?.limitOf(positions);
  const fetch = () => store.fetch({ transport, positions, ...most, within });
  const began = clock.monotonic();
  try {
    const fetched = await (lateRows.cost?.measure(fetch) ?? fetch());
    return { ...fetched, took: clock.monotonic() - began };
  } catch (error) {
    if (walks === undefined || !waitedTooLong(error)) throw error;
    // To the end it takes as long as any statement may, and would again.
    if (within === undefined) lookForBeginnings(claimer, positions);
    if (walks.cancelled(positions, clock.monotonic() - began)) return undefined;
    throw error;
  }
}

/** Of the buckets that were read to the end, and are still ours. */
function lookForBeginnings(claimer: Claimer, positions: readonly ReadPosition[]): void {
  for (const position of positions) {
    const { bucket } = position;
    if (isBounded(position) || !claimer.isRead(bucket)) continue;
    claimer.forget(bucket);
    claimer.add(bucket);
  }
}

/** Heads pass what a bounded read covered, where nothing more is in it. @returns whether one did: more may be behind it */
export function passWalked(
  claimer: Claimer,
  { messages, took }: Fetched,
  positions: readonly ReadPosition[],
  limit: number,
): boolean {
  const { walks, full, heads } = claimer;
  if (walks === undefined) return false;
  const isWhole = (bucket: number): boolean => messages.length < limit && !full.has(bucket) && claimer.isRead(bucket);
  const points = walks.read(positions, messages.length, took, isWhole);
  for (const [bucket, seq] of points) heads.set(bucket, seq);
  return points.size > 0;
}

/** Rows per bucket when all of them have some: 32 × 16 = 512, one batch. */
const MIN_PER_BUCKET = 16;
