import { compareSeq } from '../../../lib/outbox-message.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type {
  DeadLetter,
  Death,
  DueRow,
  Hastened,
  HastenRequest,
  KeyInBucket,
  ReparkEntry,
} from '../../../lib/store/parked-store.js';
import type { SettledMessage } from '../../../lib/store/ready-store.js';
import { blockingRows, distinctKeys, isBeingSent } from './memory-keys.js';
import type { MemoryDatabase } from './memory-database.js';
import type { MemoryTransaction } from './memory-transaction.js';
import { byDueTime, type ParkedRow } from './memory-rows.js';

/** The parked table; each function is one statement, or a part of one that writes. `memory-take` brings rows back. */

export function due(
  database: MemoryDatabase,
  transport: number,
  buckets: readonly number[],
  limit: number,
): { rows: DueRow[]; nextIn: number | null } {
  const now = database.now();
  const timed = database.parkedRows(transport).filter((row) => row.dueAt !== null && buckets.includes(row.bucket));
  const later = timed.map((row) => row.dueAt as number).filter((dueAt) => dueAt > now);
  const rows = timed
    .filter((row) => (row.dueAt as number) <= now && !isMarked(database, row))
    .sort(byDueTime)
    .slice(0, limit)
    .map((row) => ({ parkedId: row.parkedId, bucket: row.bucket, key: keyToAsk(database, row), state: row.state }));
  return { rows, nextIn: later.length === 0 ? null : Math.ceil(Math.min(...later) - now) };
}

/** Marked as being sent in the lease's current epoch, whether or not that has expired. */
function isMarked(database: MemoryDatabase, { transport, bucket, sendingEpoch }: ParkedRow): boolean {
  return sendingEpoch !== null && sendingEpoch === database.lease(transport, bucket)?.epoch;
}

/** A row that holds nobody back, and never will, is nobody's successor either: it goes as one without a key. */
export function keyToAsk({ settings }: MemoryDatabase, { blocking, state, key }: ParkedRow): string | null {
  if (!blocking && (settings.ordering === 'none' || state !== 'scheduled')) return null;
  return settings.ordering === 'global' ? '' : key;
}

/** Fenced: rows that these leases are sending, in the life that they were sent in. */
export function isSentBy(database: MemoryDatabase, owner: string, leases: readonly Lease[]) {
  const held = database.held(owner, leases);
  return (row: ParkedRow, { attemptsBefore }: ReparkEntry): boolean =>
    row.attempts === attemptsBefore &&
    held.some((lease) => {
      const { transport, bucket, epoch } = lease;
      return row.transport === transport && row.bucket === bucket && row.sendingEpoch === epoch;
    });
}

/** @returns how many were written */
export function repark(
  database: MemoryDatabase,
  entries: readonly ReparkEntry[],
  mayWrite: (row: ParkedRow, entry: ReparkEntry) => boolean,
): number {
  const now = database.now();
  let written = 0;
  for (const entry of entries) {
    const { parkedId, bucket, state, blocks, attempts, delay, error, progress } = entry;
    const row = database.parked.get(parkedId);
    if (row === undefined || row.bucket !== bucket || !mayWrite(row, entry)) continue;
    const before = row.attempts;
    row.state = state;
    row.blocking = blocks;
    row.attempts = attempts;
    row.sendingEpoch = null;
    row.dueAt = state === 'waiting' ? now + (delay ?? 0) : null;
    row.diedAt = state === 'dead' ? now : null;
    if (state === 'dead') row.death = database.nextDeath();
    row.announced = false;
    row.lastError = error ?? row.lastError;
    if (progress !== undefined) row.progress = progress;
    database.watch?.reparked(row, before);
    written += 1;
  }
  return written;
}

/**
 * Success, whatever the state is. When the row was not being sent under the current lease, its owner will not go on with
 * the key by itself, so the key's next row becomes due.
 */
export function settleParked(
  transaction: MemoryTransaction,
  transport: number,
  messages: readonly SettledMessage[],
  onPublished: 'delete' | 'archive',
): number {
  const { database } = transaction;
  const now = database.now();
  const wanted = new Set(messages.map(({ id, seq }) => `${id} ${seq}`));
  const gone = database.parkedRows(transport).filter(({ id, seq }) => wanted.has(`${id} ${seq}`));
  for (const row of gone) {
    database.parked.delete(row.parkedId);
    transaction.onRollback(() => database.parked.set(row.parkedId, row));
    database.watch?.settled(row);
    if (onPublished === 'archive') database.archive.add({ ...row, publishedAt: now });
  }
  const surprising = gone.filter((row) => row.blocking && !isBeingSent(database, row, now));
  const isGlobal = database.settings.ordering === 'global';
  for (const { bucket, key } of distinctKeys(isGlobal ? surprising.map(inOneOrder) : surprising)) {
    const [next] = blockingRows(database, transport, bucket, key);
    if (next?.state !== 'blocked' || isBeingSent(database, next, now)) continue;
    const { dueAt } = next;
    next.dueAt = now;
    transaction.onRollback(() => void (next.dueAt = dueAt));
  }
  return gone.length;
}

const inOneOrder = ({ bucket }: ParkedRow): KeyInBucket => ({ bucket, key: '' });

export function blockingKeys(
  database: MemoryDatabase,
  transport: number,
  buckets: readonly number[],
  limit: number,
  after: ReadonlyMap<number, string> = new Map(),
): (KeyInBucket & { ready: boolean })[] {
  const isBehind = ({ bucket, key }: KeyInBucket): boolean => compareKeys(key, after.get(bucket)) > 0;
  const keys = distinctKeys(database.parkedRows(transport).filter((row) => row.blocking));
  const found = keys.filter((each) => buckets.includes(each.bucket) && isBehind(each));
  found.sort((a, b) => a.bucket - b.bucket || compareKeys(a.key, b.key));
  return found.slice(0, limit).map(({ bucket, key }) => {
    const [first] = blockingRows(database, transport, bucket, key) as [ParkedRow];
    const waits = first.state !== 'blocked' && (first.sendingEpoch === null || first.state === 'dead');
    return { bucket, key, ready: !waits && !isMarked(database, first) };
  });
}

function compareKeys(a: string, b: string | undefined): number {
  return b === undefined ? 1 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Two statements of the others are one here. */
export function hasten(
  database: MemoryDatabase,
  transport: number,
  buckets: readonly number[],
  { topics, from, limit }: HastenRequest,
): Hastened {
  if (buckets.length === 0) return { hastened: 0, passed: 0, next: null };
  const now = database.now();
  const waiting = database
    .parkedRows(transport)
    .filter(({ state, parkedId }) => state === 'waiting' && compareSeq(parkedId, from ?? '0') > 0)
    .sort((a, b) => compareSeq(a.parkedId, b.parkedId))
    .slice(0, limit);
  const putOff = waiting.filter(
    ({ bucket, topic, attempts, dueAt }) =>
      buckets.includes(bucket) && topics?.includes(topic) !== false && attempts === 0 && (dueAt as number) > now,
  );
  for (const row of putOff) row.dueAt = now;
  const next = waiting.length < limit ? null : (waiting.at(-1)?.parkedId ?? null);
  return { hastened: putOff.length, passed: 0, next };
}

export function blockedAmong(database: MemoryDatabase, transport: number, keys: readonly KeyInBucket[]): KeyInBucket[] {
  const [now, isGlobal] = [database.now(), database.settings.ordering === 'global'];
  const due = database.parkedRows(transport).filter(({ dueAt }) => isGlobal && dueAt !== null && dueAt <= now);
  return keys
    .filter(
      ({ bucket, key }) =>
        blockingRows(database, transport, bucket, key).length > 0 || due.some((row) => row.bucket === bucket),
    )
    .map(({ bucket, key }) => ({ bucket, key }));
}

export function unannouncedDead(
  database: MemoryDatabase,
  transports: readonly number[],
  limit: number,
  after?: Death,
): DeadLetter[] {
  const isBehind = ({ transport, parkedId }: ParkedRow): boolean =>
    transport !== after?.transport || compareSeq(parkedId, after.parkedId) > 0;
  const of = (transport: number): ParkedRow[] =>
    database
      .parkedRows(transport)
      .filter((row) => row.diedAt !== null && !row.announced && isBehind(row))
      .sort((a, b) => compareSeq(a.parkedId, b.parkedId));
  return transports
    .flatMap(of)
    .slice(0, limit)
    .map((row) => ({
      message: database.message(row),
      parkedId: row.parkedId,
      transport: row.transport,
      error: row.lastError,
      died: String(row.death),
      diedAt: new Date(row.diedAt as number),
    }));
}

export function markAnnounced(database: MemoryDatabase, deaths: readonly Death[]): void {
  for (const { parkedId, died } of deaths) {
    const row = database.parked.get(parkedId);
    if (row?.state === 'dead' && String(row.death) === died) row.announced = true;
  }
}
