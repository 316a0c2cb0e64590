import type { Cleaning } from '../../../lib/store/admin-store.js';
import { wakeNext } from './memory-admin.js';
import { unsettled } from './memory-dedup.js';
import type { MemoryDatabase } from './memory-database.js';
import { isVisible } from './memory-rows.js';

/** Deletes what is final and old, oldest first; one statement. */
export function clean(database: MemoryDatabase, what: Cleaning, age: number, limit: number): number {
  if (what === 'audit') return cleanAudit(database, age, limit);
  if (what === 'archive') return cleanArchive(database, age, limit);
  if (what === 'dedup') return cleanDedup(database, age, limit);
  return cleanDead(database, age, limit, what === 'announced');
}

function cleanArchive({ archive, now }: MemoryDatabase, age: number, limit: number): number {
  const before = now() - age;
  const old = [...archive].filter(({ publishedAt }) => publishedAt < before).slice(0, limit);
  for (const row of old) archive.delete(row);
  return old.length;
}

/** A key that waited for a dead message goes on. */
function cleanDead(database: MemoryDatabase, age: number, limit: number, announcedOnly: boolean): number {
  const now = database.now();
  const old = database
    .parkedRows()
    .filter((row) => row.state === 'dead' && row.diedAt !== null && row.diedAt < now - age)
    .filter((row) => row.announced || !announcedOnly)
    .sort((a, b) => (a.diedAt as number) - (b.diedAt as number))
    .slice(0, limit);
  for (const { parkedId } of old) database.parked.delete(parkedId);
  wakeNext(database, old, now);
  return old.length;
}

function cleanAudit({ audits, now }: MemoryDatabase, age: number, limit: number): number {
  const before = now() - age;
  const kept = audits.findIndex(({ begunAt }) => (begunAt as Date).getTime() > before);
  return audits.splice(0, Math.min(kept < 0 ? audits.length : kept, limit)).length;
}

function cleanDedup(database: MemoryDatabase, age: number, limit: number): number {
  const before = database.now() - age;
  const isUnsettled = unsettled(database);
  const old = [...database.dedup]
    .filter(([, row]) => isVisible(row) && row.createdAt < before && !isUnsettled(row))
    .sort(([, a], [, b]) => a.createdAt - b.createdAt)
    .slice(0, limit);
  for (const [key] of old) database.dedup.delete(key);
  return old.length;
}
