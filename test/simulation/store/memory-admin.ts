import { bucketOf } from '../../../lib/message/bucket-of.js';
import {
  LEFT_COUNT_LIMIT,
  perBucket,
  STATS_COUNT_LIMIT,
  type GlanceRequest,
  type Head,
  type MessageFilter,
  type OperatorReport,
  type TransportGlance,
  type TransportStats,
  type Change,
} from '../../../lib/store/admin-store.js';
import { compareSeq, type ParkedState } from '../../../lib/outbox-message.js';
import { meansReady, statesOf } from '../../../lib/store/operator-rows.js';
import { freeDedup } from './memory-dedup.js';
import { blockingRows, isBeingSent } from './memory-keys.js';
import type { MemoryDatabase } from './memory-database.js';
import { byOrder, isLocked, isVisible, type ParkedRow, type ReadyRow } from './memory-rows.js';
import { Blocked, type MemoryTransaction } from './memory-transaction.js';

/** What operators do to parked messages, never to one that is being sent; each function is one step. */

export interface Changed {
  readonly done: string[];
  /** Every row of the filter was looked at. */
  readonly sawAll: boolean;
  /** Rows that the limit left out. */
  readonly left: number;
}

/** @returns what was changed; waits for a row that is locked while it is published */
export function change(database: MemoryDatabase, how: Change, filter: MessageFilter): Changed | Blocked {
  const now = database.now();
  const meant = meantBy(database, how, filter);
  const found = meant.slice(0, filter.limit);
  const unowned =
    how === 'cancel' && meansReady(filter) ? cancelUnowned(database, filter, filter.limit - found.length, now) : [];
  const locked = found.find(isLocked);
  if (locked !== undefined) return new Blocked(locked.lockedBy as MemoryTransaction);
  const changed = found.filter((row) => !isBeingSent(database, row, now));
  for (const row of changed) {
    if (how === 'requeue') {
      requeue(database, row, now);
      database.watch?.requeued(row);
    } else {
      database.parked.delete(row.parkedId);
      database.watch?.removed(row);
    }
  }
  const done = [...new Set([...changed, ...unowned].map(({ id }) => id))];
  if (how !== 'requeue') {
    wakeNext(database, changed, now);
    freeDedup(database, done);
  }
  return {
    done,
    sawAll: found.length < filter.limit,
    left: Math.min(LEFT_COUNT_LIMIT, meant.length - found.length),
  };
}

/** Rows that the call would change, first ones first. */
function meantBy(database: MemoryDatabase, how: Change, filter: MessageFilter): ParkedRow[] {
  const states = statesOf(how, filter);
  const rows = database.parkedRows(filter.transport);
  return rows.filter((row) => states.includes(row.state) && matches(filter, row)).sort(byOrder);
}

export function count(database: MemoryDatabase, how: Change, filter: MessageFilter): number {
  return Math.min(filter.limit, meantBy(database, how, filter).length);
}

function matches({ ids, key, topic, type }: Partial<MessageFilter>, row: ReadyRow): boolean {
  if (ids !== undefined && !ids.includes(row.id)) return false;
  if (key !== undefined && row.key !== key) return false;
  return (topic === undefined || row.topic === topic) && (type === undefined || row.type === type);
}

function requeue({ settings }: MemoryDatabase, row: ParkedRow, now: number): void {
  row.state = 'waiting';
  row.dueAt = now;
  row.attempts = 0;
  row.blocking = settings.ordering === 'global' || (settings.ordering !== 'none' && row.key !== null);
  row.sendingEpoch = null;
  row.diedAt = null;
  row.announced = false;
}

/** The keys whose blocking rows were deleted, or a global order, go on with their next row, if it was only waiting for them. */
export function wakeNext(database: MemoryDatabase, deleted: readonly ParkedRow[], now: number): void {
  for (const { transport, bucket, key, blocking } of deleted) {
    if (!blocking || (key === null && database.settings.ordering !== 'global')) continue;
    const [next] = blockingRows(database, transport, bucket, key ?? '');
    if (next?.state === 'blocked' && !isBeingSent(database, next, now)) next.dueAt = now;
  }
}

/** Ready rows of buckets that nobody leases, or whose owner is idle: nobody can be sending them, but whoever locked them. */
function cancelUnowned(database: MemoryDatabase, filter: MessageFilter, room: number, now: number): ReadyRow[] {
  const cancelled: ReadyRow[] = [];
  for (const { transport, bucket, owner, expiresAt, epoch, idleEpoch } of database.leases.values()) {
    const isPublished = owner !== null && expiresAt > now && idleEpoch !== epoch;
    if (isPublished || (filter.transport ?? transport) !== transport) continue;
    for (const row of database.readyRows(transport, bucket)) {
      if (cancelled.length >= room || isLocked(row) || !isVisible(row) || !matches(filter, row)) continue;
      cancelled.push(row);
    }
  }
  for (const row of cancelled) {
    database.removeReady(row);
    database.watch?.removed(row);
  }
  return cancelled;
}

/** Of these ids those that are somewhere, as the rest of the filter says. */
export function whereabouts(
  database: MemoryDatabase,
  ids: readonly string[],
  filter: Partial<MessageFilter>,
): Set<string> {
  const { transport } = filter;
  const ready = [...database.ready.values()].flatMap((rows) => [...rows.values()]).filter(isVisible);
  const rows = [...ready, ...database.parkedRows()];
  const meant = rows.filter((row) => row.transport === (transport ?? row.transport) && matches(filter, row));
  const there = new Set(meant.map(({ id }) => id));
  return new Set(ids.filter((id) => there.has(id)));
}

/** Whether another transport may still have what was changed. */
export function mayBeElsewhere({ transports }: MemoryDatabase, how: Change, { transport }: MessageFilter): boolean {
  return how === 'cancel' && transport === undefined && transports.size > 1;
}

/** @param left what of `changed` another transport still has */
export function report(
  { ids, limit }: MessageFilter,
  { done: changed, left: more }: Pick<Changed, 'done' | 'left'>,
  left: readonly string[],
  late: readonly string[],
): OperatorReport {
  const done = changed.filter((id) => !left.includes(id));
  const tooLate = [...new Set([...left, ...late])].filter((id) => !done.includes(id));
  if (ids === undefined) return { done, tooLate: tooLate.slice(0, limit), notFound: [], left: more };
  const notFound = [...new Set(ids)].filter((id) => !done.includes(id) && !tooLate.includes(id));
  return { done, tooLate, notFound, left: more };
}

/**
 * What the filter means and nobody can stop any more.
 * @param sawAll what could be changed now was parked since the change, which had every row of the filter in its hands
 */
export function tooLate(database: MemoryDatabase, how: Change, filter: MessageFilter, sawAll: boolean): string[] {
  const now = database.now();
  const { transport, limit } = filter;
  const hot = meansReady(filter) ? [...database.ready.values()] : [];
  const ready = hot.flatMap((rows) => [...rows.values()]).filter(isVisible);
  const states = statesOf(how, filter);
  const parked = database.parkedRows(transport).filter((row) => {
    if (filter.states !== undefined && !states.includes(row.state)) return false;
    return isBeingSent(database, row, now) || (sawAll && states.includes(row.state));
  });
  const late = [...ready, ...parked].filter((row) => {
    return (transport === undefined || row.transport === transport) && matches(filter, row);
  });
  return [...new Set(late.map(({ id }) => id))].slice(0, limit);
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

export function stats(database: MemoryDatabase): TransportStats[] {
  const transports = [...database.transports].sort(([, a], [, b]) => a - b);
  return transports.map(([name, transport]) => ({ name, ...statsOf(database, transport) }));
}

function statsOf(database: MemoryDatabase, transport: number): Omit<TransportStats, 'name'> {
  const now = database.now();
  const buckets = Array.from({ length: database.settings.buckets }, (_, bucket) => bucket);
  const ready = buckets.flatMap((bucket) => database.readyRows(transport, bucket));
  const oldest = ready.reduce((lowest, { createdAt }) => Math.min(lowest, createdAt), Infinity);
  const parked = database.parkedRows(transport);
  const count = (state: ParkedState): number => parked.filter((row) => row.state === state).length;
  const blocking = parked.filter((row) => row.blocking);
  const leases = [...database.leases.values()].filter((lease) => lease.transport === transport);
  const instances = [...database.instances.values()].filter((instance) => instance.transports.includes(transport));
  return {
    transport,
    ready: Math.min(ready.length, STATS_COUNT_LIMIT),
    readyIsExact: ready.length < STATS_COUNT_LIMIT,
    scheduled: count('scheduled'),
    waiting: count('waiting'),
    blocked: blocking.filter((row) => row.state === 'blocked').length,
    dead: count('dead'),
    blockedKeys: new Set(blocking.map(({ bucket, key }) => JSON.stringify([bucket, key]))).size,
    oldestReadyAge: ready.length === 0 ? null : Math.ceil(now - oldest),
    leasedBuckets: leases.filter(({ owner, expiresAt }) => owner !== null && expiresAt > now).length,
    instances: instances.filter(({ expiresAt }) => expiresAt > now).length,
  };
}

/** With counts that are exact: nothing here is large. */
export function glance(database: MemoryDatabase, request: GlanceRequest): TransportGlance[] {
  return stats(database).map(({ ready: _, readyIsExact: _exact, oldestReadyAge: _age, ...counts }) => ({
    ...counts,
    heads: request.buckets.flatMap((bucket) => headOf(database, counts.transport, bucket, request)),
  }));
}

function headOf(database: MemoryDatabase, transport: number, bucket: number, request: GlanceRequest): Head[] {
  const now = database.now();
  const after = request.after(transport, bucket);
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
      ready: Math.min(rows.length, perBucket(request)),
      lease: owner === null ? null : { owner, remaining: (held?.expiresAt ?? now) - now, alive },
    },
  ];
}
