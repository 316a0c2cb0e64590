import type { MemoryDatabase } from './memory-database.js';
import { isVisible } from './memory-rows.js';

/**
 * What a replica has at this moment: all that is committed. Promoted later, it has nothing of what came in between, and gives
 * out the same numbers and ids again.
 * @returns promotes it: all sessions of the old server have ended, and all their transactions
 */
export function replica(database: MemoryDatabase): () => void {
  const { nextSeq, nextParkedId, nextTransactionId, highestFinished, deaths } = database;
  const ready = [...database.ready.values()].flatMap((rows) => [...rows.values()]).filter(isVisible);
  const parked = [...database.parked.values()].filter(isVisible).map((row) => ({ ...row, lockedBy: undefined }));
  const archive = [...database.archive].filter(isVisible);
  const dedup = [...database.dedup].filter(([, row]) => isVisible(row));
  const leases = [...database.leases].map(([name, row]) => [name, { ...row }] as const);
  const instances = [...database.instances];
  return () => {
    for (const transaction of [...database.open].reverse()) transaction.end('rolledBack');
    database.ready.clear();
    database.lastSeq.clear();
    for (const row of ready) database.addReady(Object.assign(row, { lockedBy: undefined }));
    refill(
      database.parked,
      parked.map((row) => [row.parkedId, row]),
    );
    refill(database.dedup, dedup);
    refill(database.leases, leases);
    refill(database.instances, instances);
    database.archive.clear();
    for (const row of archive) database.archive.add(row);
    database.undurable = [];
    database.dead = undefined;
    database.flushed = database.commits;
    database.noteUsed();
    database.wentBackAt = database.now();
    Object.assign(database, { nextSeq, nextParkedId, nextTransactionId, highestFinished, deaths });
  };
}

function refill<K, V>(map: Map<K, V>, entries: Iterable<readonly [K, V]>): void {
  map.clear();
  for (const [key, value] of entries) map.set(key, value);
}
