import { compareSeq, type Place } from '../../../lib/outbox-message.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type {
  FetchResult,
  ParkEntry,
  ReadRange,
  ReadyStore,
  SettledMessage,
  Snapshot,
  SweepResult,
} from '../../../lib/store/ready-store.js';
import type { MemoryDatabase } from './memory-database.js';
import type { MemoryStore } from './memory-store.js';
import { bodyOf, type ParkedRow, type ReadyRow } from './memory-rows.js';
import type { MemoryTransaction } from './memory-transaction.js';

/** The ready table; each function is one statement, or a part of one that writes. */

export type Read = Omit<FetchResult, 'session'>;

/**
 * @param relay who reads, and is told where numbers are with each read, unless that is a question of its own
 * @param reach numbers of a bucket at which a limited read gets; a wider one is cancelled
 */
export function fetchReady(
  database: MemoryDatabase,
  request: Parameters<ReadyStore['fetch']>[0],
  relay: { readonly provesNothing: boolean },
  reach: number,
): Read {
  if (!relay.provesNothing) database.numberSource(relay);
  const { transport, positions, perBucket, limit, within = Infinity, asksFence } = request;
  const rows = positions.flatMap(({ bucket, after, upTo }) => {
    const found = database
      .readyRows(transport, bucket)
      .filter(({ seq }) => compareSeq(seq, after) > 0 && (upTo === undefined || compareSeq(seq, upTo) <= 0))
      .slice(0, perBucket);
    database.dead?.walk(transport, bucket, after, found[perBucket - 1]?.seq ?? upTo);
    return found;
  });
  const end = (upTo = String(database.nextSeq)): number => Math.min(Number(upTo), Number(database.nextSeq));
  const isWide = within < Infinity && positions.some(({ after, upTo }) => end(upTo) - Number(after) > reach);
  if (database.dead?.exceeds('fetch', within) === true || isWide) throw cancelled(within);
  const found = read(database, rows.slice(0, limit));
  return asksFence === true ? { ...found, fence: database.write(({ id }) => String(id)) } : found;
}

/** @param took milliseconds until the server gave up */
const cancelled = (took: number): Error =>
  Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014', took });

/** @param page places per range that one statement returns */
export function sweep(
  database: MemoryDatabase,
  transport: number,
  ranges: readonly ReadRange[],
  page: number,
): SweepResult {
  const found = ranges.map(({ bucket, after, upTo }) => {
    const places = database
      .readyRows(transport, bucket)
      .filter(({ seq }) => compareSeq(seq, after) > 0 && compareSeq(seq, upTo) <= 0)
      .slice(0, page)
      .map(({ seq }) => ({ bucket, seq }));
    database.dead?.walk(transport, bucket, after, places[page - 1]?.seq ?? upTo);
    return places;
  });
  return { places: found.flat(), complete: found.every((places) => places.length < page) };
}

/** Of a store whose reads prove nothing: the range of a bucket ends with the bucket. */
export function probes(store: MemoryStore): Pick<ReadyStore, 'bucketsPerRead' | 'probe'> {
  const { database } = store;
  return {
    bucketsPerRead: 1,
    probe: (transport, ranges) =>
      store.call('probe', () => {
        for (const { bucket, after, upTo } of ranges) database.dead?.walk(transport, bucket, after, upTo);
        return probe(database, transport, ranges);
      }),
  };
}

/** Of each range whether no uncommitted insert is in it, as a dirty read beside a committed one tells. */
export function probe(
  database: MemoryDatabase,
  transport: number,
  ranges: readonly ReadRange[],
): { clean: boolean[]; now: number } {
  const dirty = [...database.open].flatMap(({ rows }) => rows.filter((row) => row.transport === transport));
  const clean = ranges.map(({ bucket, after, upTo }) =>
    dirty.every((row) => row.bucket !== bucket || compareSeq(row.seq, after) <= 0 || compareSeq(row.seq, upTo) > 0),
  );
  return { clean, now: database.now() };
}

export function readPlaces(
  database: MemoryDatabase,
  transport: number,
  places: readonly Place[],
  visibleIn: Snapshot | undefined,
): Read {
  const sorted = [...places].sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
  const rows = sorted.flatMap(({ bucket, seq }) => {
    const row = database.readyRow(transport, bucket, seq);
    return row !== undefined && (visibleIn === undefined || isSeenIn(visibleIn, row)) ? [row] : [];
  });
  return read(database, rows);
}

export function readPayloads(
  database: MemoryDatabase,
  transport: number,
  messages: Parameters<ReadyStore['readPayloads']>[1],
): (string | Buffer | undefined)[] {
  return messages.map(({ bucket, seq, id, parkedId }) => {
    const row = parkedId === null ? database.readyRow(transport, bucket, seq) : database.parked.get(parkedId);
    return row?.id === id ? (bodyOf(row.payload) ?? undefined) : undefined;
  });
}

function isSeenIn({ xmax, open }: Snapshot, { writer }: ReadyRow): boolean {
  const id = writer.id as bigint;
  return id < BigInt(xmax) && !open.includes(String(id));
}

function read(database: MemoryDatabase, rows: readonly ReadyRow[]): Read {
  database.watch?.read(rows);
  return {
    messages: rows.map((row) => database.message(row)),
    snapshot: database.snapshot(),
    source: database.numberSource(),
    durable: !rows.some(({ asynchronous }) => asynchronous),
  };
}

/** @returns how many were there */
export function settleReady(
  transaction: MemoryTransaction,
  transport: number,
  messages: readonly SettledMessage[],
  onPublished: 'delete' | 'archive',
): number {
  const { database } = transaction;
  const gone = messages.flatMap((message) => removeReady(database, transport, message) ?? []);
  const publishedAt = database.now();
  for (const row of gone) {
    transaction.onRollback(() => database.addReady(row));
    database.watch?.settled(row);
  }
  if (onPublished === 'archive') for (const row of gone) database.archive.add({ ...row, attempts: 0, publishedAt });
  return gone.length;
}

/** What is still this owner's to write, by bucket. Whether it has expired does not matter while nobody took it. */
export function heldBuckets(
  database: MemoryDatabase,
  owner: string,
  leases: readonly Lease[],
  transport: number,
): Set<number> {
  const held = database.held(owner, leases).filter((row) => row.transport === transport);
  return new Set(held.map(({ bucket }) => bucket));
}

/** @returns how many were there */
export function park(
  transaction: MemoryTransaction,
  transport: number,
  entries: readonly ParkEntry[],
  mayMove: (bucket: number) => boolean,
): number {
  const { database } = transaction;
  let moved = 0;
  for (const entry of entries) {
    const row = mayMove(entry.bucket) ? removeReady(database, transport, entry) : undefined;
    if (row === undefined) continue;
    const fields = parkedFields(entry, database);
    const parked = database.addParked({ ...row, writer: transaction, lockedBy: undefined, ...fields });
    database.watch?.parked(parked);
    moved += 1;
  }
  return moved;
}

type ParkedFields = Omit<ParkedRow, keyof ReadyRow | 'parkedId'>;

function parkedFields(
  { state, blocks, attempts, delay, error, progress }: ParkEntry,
  database: MemoryDatabase,
): ParkedFields {
  const now = database.now();
  return {
    state,
    blocking: blocks,
    announced: false,
    attempts,
    sendingEpoch: null,
    dueAt: state === 'waiting' ? now + (delay ?? 0) : null,
    diedAt: state === 'dead' ? now : null,
    death: state === 'dead' ? database.nextDeath() : 0,
    lastError: error,
    progress: progress ?? null,
  };
}

/** By place and id: another message may stand there by now. */
function removeReady(
  database: MemoryDatabase,
  transport: number,
  { bucket, seq, id }: Place & { id: string },
): ReadyRow | undefined {
  const row = database.readyRow(transport, bucket, seq);
  if (row === undefined || row.id !== id) return undefined;
  database.removeReady(row);
  return row;
}
