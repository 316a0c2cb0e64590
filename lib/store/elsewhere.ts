/** A row that was deleted. */
export interface Deleted {
  readonly id: string;
  readonly transport: number;
  readonly bucket: number;
}
/** Where to look for messages of a bucket, which is the same for each of a message's transports. */
export interface Elsewhere {
  readonly bucket: number;
  readonly transports: number[];
  readonly ids: string[];
}

/** Where other transports may still have messages whose rows were deleted. */
function elsewhere(deleted: readonly Deleted[], transports: readonly number[]): Elsewhere[] {
  const buckets = new Map<number, Map<string, Set<number>>>();
  for (const { id, transport, bucket } of deleted) {
    const ids = buckets.get(bucket) ?? new Map<string, Set<number>>();
    buckets.set(bucket, ids);
    ids.set(id, (ids.get(id) ?? new Set()).add(transport));
  }
  return [...buckets].flatMap(([bucket, ids]) => {
    const open = [...ids].filter(([, of]) => transports.some((transport) => !of.has(transport)));
    const where = transports.filter((transport) => open.some(([, of]) => !of.has(transport)));
    return open.length === 0 ? [] : [{ bucket, transports: where, ids: open.map(([id]) => id) }];
  });
}

/** How a database is looked through. */
export interface Looks {
  transports(): Promise<readonly number[]>;
  /** @returns those that are ready there; `undefined`: there was no time to look for all */
  ready(place: Elsewhere): Promise<Iterable<string> | undefined>;
  parked(ids: readonly string[]): Promise<Iterable<string>>;
}

/**
 * Of messages whose rows were deleted, those that another transport still has: ready first, then parked, because rows move
 * only in this direction. What there was no time to look for may be there: nobody is told that it will not be published.
 */
export async function stillElsewhere(deleted: readonly Deleted[], looks: Looks): Promise<Set<string>> {
  const left = new Set<string>();
  const places = deleted.length === 0 ? [] : elsewhere(deleted, await looks.transports());
  for (const place of places) for (const id of (await looks.ready(place)) ?? place.ids) left.add(id);
  const others = places.flatMap(({ ids }) => ids).filter((id) => !left.has(id));
  if (others.length > 0) for (const id of await looks.parked(others)) left.add(id);
  return left;
}
