import type { AdminStore, TransportStats } from '../store/admin-store.js';

/** What waits where, of one transport. Counted by the database when asked. */
export interface OutboxTransportStats extends Omit<TransportStats, 'transport' | 'name'> {
  /** Whether this process knows the transport: rows of others are those of an older or a newer version, or another service. */
  readonly configured: boolean;
}
export interface OutboxStats {
  readonly transports: Readonly<Record<string, OutboxTransportStats>>;
  readonly total: Pick<TransportStats, 'ready' | 'scheduled' | 'waiting' | 'blocked' | 'dead' | 'blockedKeys'>;
}

/** @param ids name → number of the transports that this process knows */
export async function readStats(store: AdminStore, ids: ReadonlyMap<string, number>): Promise<OutboxStats> {
  const transports: Record<string, OutboxTransportStats> = Object.create(null) as Record<string, OutboxTransportStats>;
  const total = { ready: 0, scheduled: 0, waiting: 0, blocked: 0, dead: 0, blockedKeys: 0 };
  for (const { transport, name, ...counts } of await store.stats()) {
    transports[name] = { ...counts, configured: ids.get(name) === transport };
    for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += counts[key];
  }
  return { transports, total };
}
