import { waitedTooLong } from '../../store/database-errors.js';
import type { ReadPosition, ReadyStore } from '../../store/ready-store.js';
import type { Clock } from '../../time/clock.js';
import type { AboveLast } from './above-last.js';
import type { LateRows } from './late-rows.js';
import type { NumberWatch } from './number-watch.js';
import type { Fetched } from './read-result.js';
import { isBounded, type Walks } from './walks.js';

/** Who reads, as far as a fetch concerns it. */
interface Reader {
  readonly store: Pick<ReadyStore, 'fetch'>;
  readonly transport: number;
  readonly clock: Clock;
  readonly lateRows: LateRows;
  readonly walks: Walks | undefined;
  readonly above: AboveLast | undefined;
  readonly numbers: NumberWatch;
  /** Bucket → the number up to which it was read. */
  readonly heads: Map<number, string>;
  /** Buckets of which more is waiting. */
  readonly full: ReadonlySet<number>;
  /** Whether the bucket is ours, and its beginning is known. */
  isRead(bucket: number): boolean;
  add(bucket: number): void;
  forget(bucket: number): void;
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
  const { store, transport, clock, lateRows, walks, above } = reader;
  const last = reader.numbers.source?.last;
  const within = walks?.limitOf(positions) ?? above?.limitOf(positions, last);
  const fetch = () => store.fetch({ transport, positions, ...most, within });
  const began = clock.monotonic();
  try {
    const fetched = await (lateRows.cost?.measure(fetch) ?? fetch());
    return { ...fetched, took: clock.monotonic() - began };
  } catch (error) {
    if (walks === undefined || !waitedTooLong(error)) throw error;
    // To the end it takes as long as any statement may, and would again.
    if (within === undefined) lookForBeginnings(reader, positions);
    const isCut = within !== undefined && above?.cutOff(positions, last) === true;
    if (walks.cancelled(positions, clock.monotonic() - began) || isCut) return undefined;
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
  { messages, took, source }: Fetched,
  positions: readonly ReadPosition[],
  limit: number,
): boolean {
  const { walks, above, full, heads } = reader;
  if (walks === undefined || above === undefined) return false;
  const isWhole = (bucket: number): boolean => messages.length < limit && !full.has(bucket) && reader.isRead(bucket);
  const points = walks.read(positions, messages.length, took, isWhole);
  above.isBacklog = messages.length >= limit || full.size > 0;
  const beside = above.read(positions, isWhole, heads, source?.last);
  for (const [bucket, seq] of [...points, ...beside]) heads.set(bucket, seq);
  return points.size > 0 || [...beside.values()].some((seq) => seq !== source?.last);
}

/** Rows per bucket when all of them have some: 32 × 16 = 512, one batch. */
const MIN_PER_BUCKET = 16;
