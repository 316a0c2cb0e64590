import type { History } from './history.js';
import type { MemoryDatabase } from './store/memory-database.js';

/** Of what the new server does not have, nothing was ever committed or removed. @returns how many messages it does not have */
export function forgetLost(history: History, database: MemoryDatabase, since: number): number {
  const rows = [...database.ready.values()].flatMap((each) => [...each.values()]);
  const there = new Set([...rows, ...database.parked.values()].map(({ id }) => id));
  let lost = 0;
  for (const fate of history.fates.values()) {
    if (there.has(fate.id)) fate.removed = undefined;
    if (there.has(fate.id) || fate.committed === undefined || fate.committed < since) continue;
    fate.lost = true;
    fate.committed = undefined;
    fate.writer.state = 'rolledBack';
    lost += 1;
  }
  return lost;
}
