import type { KeyInBucket } from '../../../lib/store/parked-store.js';
import type { MemoryDatabase } from './memory-database.js';
import { byOrder, type ParkedRow } from './memory-rows.js';

/** The rows of a key, in a global order of all, that hold later ones back; the first one decides. */
export function blockingRows(database: MemoryDatabase, transport: number, bucket: number, key: string): ParkedRow[] {
  const isGlobal = database.settings.ordering === 'global';
  return database
    .parkedRows(transport)
    .filter((row) => row.blocking && row.bucket === bucket && (isGlobal || row.key === key))
    .sort(byOrder);
}

/** Whether the holder of the lease may be publishing this row now. */
export function isBeingSent(database: MemoryDatabase, row: ParkedRow, now: number): boolean {
  const lease = database.lease(row.transport, row.bucket);
  return lease !== undefined && lease.epoch === row.sendingEpoch && lease.expiresAt > now;
}

export function distinctKeys(rows: readonly { bucket: number; key: string | null }[]): KeyInBucket[] {
  const keys = new Map<string, KeyInBucket>();
  for (const { bucket, key } of rows) if (key !== null) keys.set(`${bucket} ${key}`, { bucket, key });
  return [...keys.values()];
}
