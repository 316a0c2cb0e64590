import { lowerSeq } from '../message.js';
import { waitedTooLong } from '../read-errors.js';
import type { FetchResult, ReadPosition } from '../store/ready-store.js';
import { Approach } from './approach.js';
import type { Claimer } from './claimer.js';

export interface Fetched extends FetchResult {
  /** Milliseconds. */
  readonly ms: number;
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
  const { store, transport, clock, lateRows } = claimer;
  const fetch = () => store.fetch({ transport, positions, ...most });
  const began = clock.monotonic();
  try {
    const fetched = await (lateRows.cost?.measure(fetch) ?? fetch());
    return { ...fetched, ms: clock.monotonic() - began };
  } catch (error) {
    const { approach } = claimer;
    if (!waitedTooLong(error) || !(approach instanceof Approach)) throw error;
    if (approach.walks.cancelled(positions, clock.monotonic() - began)) return undefined;
    lookForBeginnings(claimer, positions);
    throw error;
  }
}

/** To the end it takes too long, and would again. */
function lookForBeginnings(claimer: Claimer, positions: readonly ReadPosition[]): void {
  const { heads, floor } = claimer;
  const points = new Map([...heads].map(([bucket, head]) => [bucket, lowerSeq(head, floor.rewindTo(bucket))]));
  for (const { bucket } of positions) points.set(bucket, '0');
  claimer.restart(points);
}

/** Heads pass what a bounded read covered, where nothing more is in it. */
export function passWalked(
  claimer: Claimer,
  { messages, ms }: Fetched,
  positions: readonly ReadPosition[],
  limit: number,
): void {
  const { approach, full, heads } = claimer;
  if (!(approach instanceof Approach)) return;
  const isWhole = (bucket: number): boolean => messages.length < limit && !full.has(bucket) && claimer.isRead(bucket);
  for (const [bucket, seq] of approach.walks.read(positions, ms, isWhole)) heads.set(bucket, seq);
}

/** Rows per bucket when all of them have some: 32 × 16 = 512, one batch. */
const MIN_PER_BUCKET = 16;
