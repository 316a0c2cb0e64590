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
export function elsewhere(deleted: readonly Deleted[], transports: readonly number[]): Elsewhere[] {
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
