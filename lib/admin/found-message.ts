import { printable } from '../observe/redact/printable.js';
import type { StoredRow, StoredState } from '../store/inspect-store.js';

/** One message in one of its transports, without payload and headers. Times are the database's. */
export interface FoundMessage {
  readonly id: string;
  readonly state: StoredState;
  readonly transport: string;
  readonly topic: string;
  /** `null`: unordered. */
  readonly key: string | null;
  readonly type: string;
  readonly version: number;
  readonly contentType: string;
  readonly bucket: number;
  /** Failures that were charged to the message. */
  readonly attempts: number;
  /** Of the last failure. */
  readonly lastError: string | null;
  readonly createdAt: Date | null;
  /** When it is published at the earliest. */
  readonly dueAt: Date | null;
  readonly lastAttemptAt: Date | null;
  readonly diedAt: Date | null;
  readonly publishedAt: Date | null;
}

export function toFound(row: StoredRow, names: ReadonlyMap<number, string>): FoundMessage {
  const { id, state, topic, key, type, version, contentType, bucket, attempts, lastError } = row;
  const { createdAt, dueAt, lastAttemptAt, diedAt, publishedAt } = row;
  return {
    id,
    state,
    transport: nameOf(row.transport, names),
    topic,
    key,
    type,
    version,
    contentType,
    bucket,
    attempts,
    // Rows of other programs may hold anything.
    lastError: lastError === null ? null : printable(lastError),
    createdAt,
    dueAt,
    lastAttemptAt,
    diedAt,
    publishedAt,
  };
}

/** A row of another program may have a number that no process registered. */
export const nameOf = (transport: number, names: ReadonlyMap<number, string>): string =>
  names.get(transport) ?? `number ${transport}`;
