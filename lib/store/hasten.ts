import type { Hastened, HastenRequest } from './parked-store.js';

/** A row that is not due yet; `dueAt` in microseconds. */
export interface LaterRow {
  readonly parkedId: string;
  readonly topic: string;
  /** It waits without an attempt. */
  readonly waits: boolean;
  readonly dueAt: string;
}

/** Makes the rows of one part due, by the two statements of a dialect; and says where the next part begins. */
export async function hastenPart(
  { topics, from, limit }: HastenRequest,
  read: (from: string) => Promise<readonly LaterRow[]>,
  write: (parkedIds: readonly string[]) => Promise<number>,
): Promise<Hastened> {
  const rows = await read(from ?? '0');
  const ids = rows.flatMap(({ parkedId, topic, waits }) =>
    waits && topics?.includes(topic) !== false ? [parkedId] : [],
  );
  const hastened = ids.length === 0 ? 0 : await write(ids);
  const passed = ids.length - hastened;
  const last = rows.at(-1)?.dueAt;
  if (last === undefined || rows.length < limit) return { hastened, passed, next: null };
  // Others may fall due at the same time as the last of these. Of those that stay, no part holds nothing else.
  return { hastened, passed, next: last === from && hastened === 0 ? String(BigInt(last) + 1n) : last };
}
