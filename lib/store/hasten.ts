import type { Hastened, HastenRequest } from './parked-store.js';

/** A row that waits for its next try. */
export interface WaitingRow {
  readonly parkedId: string;
  readonly bucket: number;
  readonly topic: string;
  /** It was put off without an attempt, and is not due yet. */
  readonly putOff: boolean;
}

/** Makes the rows of one part due, by the two statements of a dialect; and says where the next part begins. */
export async function hastenPart(
  buckets: readonly number[],
  { topics, from, limit }: HastenRequest,
  read: (after: string) => Promise<readonly WaitingRow[]>,
  write: (parkedIds: readonly string[]) => Promise<number>,
): Promise<Hastened> {
  const rows = buckets.length === 0 ? [] : await read(from ?? '0');
  const ids = rows.flatMap(({ parkedId, bucket, topic, putOff }) =>
    putOff && buckets.includes(bucket) && topics?.includes(topic) !== false ? [parkedId] : [],
  );
  const hastened = ids.length === 0 ? 0 : await write(ids);
  const next = rows.length < limit ? undefined : rows.at(-1)?.parkedId;
  return { hastened, passed: ids.length - hastened, next: next ?? null };
}
