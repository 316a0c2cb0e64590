import type { SqlResult } from '../executor.js';
import type { Hastened, HastenRequest } from '../parked-store.js';
import type { Dialect } from './dialect.js';

/**
 * Makes the rows of one part due, by the two statements of a dialect; and says where the next part begins.
 * @param read rows that wait: number, bucket, topic, whether it was put off without an attempt and is not due yet
 */
export async function hastenPart(
  buckets: readonly number[],
  { topics, from, limit }: HastenRequest,
  { isTrue }: Dialect,
  read: (after: string) => Promise<SqlResult>,
  write: (parkedIds: readonly string[]) => Promise<number>,
): Promise<Hastened> {
  const rows = buckets.length === 0 ? [] : (await read(from ?? '0')).rows;
  const ids = rows.flatMap(([parkedId, bucket, topic, putOff]) =>
    isTrue(putOff) && buckets.includes(Number(bucket)) && topics?.includes(String(topic)) !== false
      ? [String(parkedId)]
      : [],
  );
  const hastened = ids.length === 0 ? 0 : await write(ids);
  const last = rows.at(-1)?.[0];
  return {
    hastened,
    passed: ids.length - hastened,
    next: rows.length < limit || last === undefined ? null : String(last),
  };
}
