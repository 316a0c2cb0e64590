import type { ResolvedOptions } from '../../lib/outbox.options.js';
import type { Fleet } from './fleet.js';
import type { History } from './history.js';
import type { MemoryDatabase } from './store/memory-database.js';
import { isVisible } from './store/memory-rows.js';

/** What is not through: rows that are neither dead nor held behind a dead one, deaths that nobody was told of, relays that are not idle. */
export function through(history: History, database: MemoryDatabase, options: ResolvedOptions, fleet: Fleet): string[] {
  const closed = new Set<string | null>();
  const left: string[] = [];
  for (const { id, state, blocking, announced } of database.parked.values()) {
    if (state !== 'dead') continue;
    if (blocking) closed.add(history.fates.get(id)?.gate ?? null);
    if (!announced) left.push(`${history.fates.get(id)?.name} died recheck`);
  }
  const isHeld = (id: string): boolean => {
    const gate = history.fates.get(id)?.gate ?? null;
    return gate !== null && closed.has(gate);
  };
  const rest = (row: { id: string }, where: string): void => {
    if (!isHeld(row.id)) left.push(`${history.fates.get(row.id)?.name} is ${where}`);
  };
  for (const rows of database.ready.values()) for (const row of rows.values()) if (isVisible(row)) rest(row, 'ready');
  for (const row of database.parked.values()) if (row.state !== 'dead' && isVisible(row)) rest(row, row.state);
  if (left.length > 0) return left;
  for (const { relay, transportRelay } of fleet.transportRelays) {
    const { held, flight, queues, known } = transportRelay.ledger;
    const busy = held + flight.batches.size + queues.tails.size + known.size + known.settledMeanwhile.length;
    if (busy > 0 && options.ordering !== 'global')
      left.push(
        `${relay.process.name} holds ${held}, ${flight.batches.size} in flight, ${queues.tails.size} keys, ${known.size} known`,
      );
  }
  return left;
}
