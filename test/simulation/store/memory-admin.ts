import { bucketOf } from '../../../lib/message/bucket-of.js';
import {
  perBucket,
  STATS_COUNT_LIMIT,
  type Head,
  type StatsRequest,
  type TransportStats,
} from '../../../lib/store/admin-store.js';
import { compareSeq, type ParkedState } from '../../../lib/outbox-message.js';
import { blockingRows, isBeingSent } from './memory-keys.js';
import type { MemoryDatabase } from './memory-database.js';
import type { ParkedRow } from './memory-rows.js';

/** The keys whose blocking rows were deleted, or a global order, go on with their next row, if it was only waiting for them. */
export function wakeNext(database: MemoryDatabase, deleted: readonly ParkedRow[], now: number): void {
  for (const { transport, bucket, key, blocking } of deleted) {
    if (!blocking || (key === null && database.settings.ordering !== 'global')) continue;
    const [next] = blockingRows(database, transport, bucket, key ?? '');
    if (next?.state === 'blocked' && !isBeingSent(database, next, now)) next.dueAt = now;
  }
}

export function release(database: MemoryDatabase, filter: { key: string; transport?: number }): { released: number } {
  const { buckets, ordering } = database.settings;
  const { key } = filter;
  const bucket = ordering === 'global' ? 0 : bucketOf(key, buckets);
  const now = database.now();
  let released = 0;
  for (const transport of database.transports.values()) {
    if (filter.transport !== undefined && filter.transport !== transport) continue;
    const ofKey = blockingRows(database, transport, bucket, key).filter((row) => row.key === key);
    for (const row of ofKey) {
      if (row.state !== 'dead') continue;
      row.blocking = false;
      released += 1;
    }
    const [first] = blockingRows(database, transport, bucket, key);
    if (first === undefined || isBeingSent(database, first, now)) continue;
    if (first.state === 'blocked' || (first.state === 'waiting' && first.key === key)) first.dueAt = now;
  }
  return { released };
}

/** With counts that are exact: nothing here is large. */
export function stats(database: MemoryDatabase, request: StatsRequest = {}): TransportStats[] {
  const transports = [...database.transports].sort(([, a], [, b]) => a - b);
  return transports.map(([name, transport]) => ({ name, ...statsOf(database, transport, request) }));
}

function statsOf(database: MemoryDatabase, transport: number, request: StatsRequest): Omit<TransportStats, 'name'> {
  const now = database.now();
  const buckets = Array.from({ length: database.settings.buckets }, (_, bucket) => bucket);
  const ready = buckets.flatMap((bucket) => database.readyRows(transport, bucket));
  const oldest = ready.reduce((lowest, { createdAt }) => Math.min(lowest, createdAt), Infinity);
  const parked = database.parkedRows(transport);
  const count = (state: ParkedState): number => parked.filter((row) => row.state === state).length;
  const blocking = parked.filter((row) => row.blocking);
  const leases = [...database.leases.values()].filter((lease) => lease.transport === transport);
  const { limit = STATS_COUNT_LIMIT, look = { buckets, after: () => '0' }, topicsOf } = request;
  return {
    transport,
    heads: look.buckets.flatMap((bucket) =>
      headOf(database, transport, bucket, look.after(transport, bucket), perBucket(limit, look.buckets)),
    ),
    ready: Math.min(ready.length, limit),
    readyIsExact: ready.length < limit,
    scheduled: count('scheduled'),
    waiting: count('waiting'),
    blocked: blocking.filter((row) => row.state === 'blocked').length,
    dead: count('dead'),
    blockedKeys: new Set(blocking.map(({ bucket, key }) => JSON.stringify([bucket, key]))).size,
    oldestReadyAge: ready.length === 0 ? null : Math.ceil(now - oldest),
    leasedBuckets: leases.filter(({ owner, expiresAt }) => owner !== null && expiresAt > now).length,
    ...(topicsOf?.includes(transport) && { topics: topicsIn(parked, limit) }),
  };
}

function topicsIn(parked: readonly ParkedRow[], limit: number): Map<string, number> {
  const topics = new Map<string, number>();
  for (const state of ['waiting', 'blocked'])
    for (const { topic } of parked.filter((row) => row.state === state).slice(0, limit))
      topics.set(topic, (topics.get(topic) ?? 0) + 1);
  return topics;
}

function headOf(database: MemoryDatabase, transport: number, bucket: number, after: string, most: number): Head[] {
  const now = database.now();
  const rows = database.readyRows(transport, bucket).filter(({ seq }) => compareSeq(seq, after) > 0);
  const [first] = rows.sort((a, b) => compareSeq(a.seq, b.seq));
  if (first === undefined) return [];
  const held = [...database.leases.values()].find((lease) => lease.transport === transport && lease.bucket === bucket);
  const owner = held === undefined || held.expiresAt <= now ? null : held.owner;
  const alive = owner !== null && (database.instances.get(owner)?.expiresAt ?? -Infinity) > now;
  return [
    {
      bucket,
      seq: first.seq,
      id: first.id,
      age: Math.ceil(now - first.createdAt),
      ready: Math.min(rows.length, most),
      lease: owner === null ? null : { owner, remaining: (held?.expiresAt ?? now) - now, alive },
    },
  ];
}
