import { LARGE_PAYLOAD } from '../../../lib/message/unread-payload.js';
import { isUtf8 } from 'node:buffer';
import { OutboxMessage, compareSeq, type NewMessage, type ParkedState } from '../../../lib/outbox-message.js';
import type { Instance, Lease } from '../../../lib/store/lease-store.js';
import type { MemoryTransaction } from './memory-transaction.js';

type Content = Omit<NewMessage, 'payload' | 'delay' | 'deliverAt' | 'dedupKey'>;

export interface ReadyRow extends Content {
  readonly seq: string;
  readonly payload: Buffer | null;
  readonly createdAt: number;
  /** Its commit did not wait for the disk. */
  readonly asynchronous: boolean;
  readonly writer: MemoryTransaction;
  /** Who publishes it under `coordination: 'rowLock'`; a lock ends with its transaction. */
  lockedBy: MemoryTransaction | undefined;
}
export interface ParkedRow extends ReadyRow {
  readonly parkedId: string;
  /** A scheduled message gets a new one when it goes behind others. */
  seq: string;
  state: ParkedState;
  blocking: boolean;
  announced: boolean;
  attempts: number;
  sendingEpoch: bigint | null;
  dueAt: number | null;
  diedAt: number | null;
  /** Its last one, of all in this database: two may have one time. */
  death: number;
  lastError: string | null;
  progress: string | null;
}
export interface ArchiveRow extends ReadyRow {
  readonly attempts: number;
  readonly publishedAt: number;
}
export interface DedupRow {
  readonly id: string;
  readonly createdAt: number;
  readonly writer: MemoryTransaction;
  /** Where its messages were put; the key outlives them. */
  readonly places: { readonly transport: number; readonly bucket: number; readonly seq: string }[];
}
export interface LeaseRow {
  readonly transport: number;
  readonly bucket: number;
  owner: string | null;
  epoch: bigint;
  expiresAt: number;
  crashes: number;
  trial: string | null;
}
export interface InstanceRow extends Instance {
  readonly expiresAt: number;
}

export const isVisible = ({ writer }: { writer: MemoryTransaction }): boolean => writer.state === 'committed';
export const isLocked = ({ lockedBy }: ReadyRow): boolean => lockedBy?.state === 'open';
export const leaseOf = ({ transport, bucket, epoch }: LeaseRow): Lease => ({ transport, bucket, epoch: String(epoch) });

/** Order of a key. */
export const byOrder = (a: ParkedRow, b: ParkedRow): number =>
  compareSeq(a.seq, b.seq) || compareSeq(a.parkedId, b.parkedId);
/** `dueAt` of both must be set. */
export const byDueTime = (a: ParkedRow, b: ParkedRow): number =>
  (a.dueAt as number) - (b.dueAt as number) || compareSeq(a.seq, b.seq);

export const hasLargePayload = ({ payload }: ReadyRow): boolean => (payload?.length ?? 0) > LARGE_PAYLOAD;

/** A new object every time: the relay links them. */
export function toMessage(row: ReadyRow | ParkedRow, unread: boolean): OutboxMessage {
  const parked = 'parkedId' in row ? row : undefined;
  return new OutboxMessage({
    bucket: row.bucket,
    seq: row.seq,
    id: row.id,
    topic: row.topic,
    key: row.key,
    type: row.type,
    version: row.version,
    contentType: row.contentType,
    headersJson: row.headers,
    optionsJson: row.options,
    body: unread ? null : bodyOf(row.payload),
    unread: unread ? (row.payload?.length ?? 0) : 0,
    createdText: `${new Date(row.createdAt).toISOString().slice(0, 23).replace('T', ' ')}+00`,
    attempts: parked?.attempts ?? 0,
    parkedId: parked?.parkedId ?? null,
    parkedState: parked?.state ?? null,
    progress: parked?.progress ?? null,
  });
}

/** Text where it can be text, like PostgreSQL, whose text has no NUL. */
export function bodyOf(payload: Buffer | null): string | Buffer | null {
  if (payload === null) return null;
  return isUtf8(payload) && !payload.includes(0) ? payload.toString('utf8') : Buffer.from(payload);
}
