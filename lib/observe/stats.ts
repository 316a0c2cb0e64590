import type { AdminStore, TransportStats } from '../store/admin-store.js';
import { liveOf, seeRelays, type SeenRelay } from './seen-relays.js';

/** What waits where, of one transport. Counted by the database when asked. */
export interface OutboxTransportStats extends Omit<TransportStats, 'transport' | 'name'> {
  /** Whether this process knows the transport: rows of others are those of an older or a newer version, or another service. */
  readonly configured: boolean;
  /** Relays that live and have the transport, whether its broker is there or not. */
  readonly instances: number;
}
/** A destination that takes nothing, or is missing, as far as the relay of this process knows. */
export interface OutboxAwayDestination {
  readonly transport: string;
  /** `exchange "shop", routing key "orders"`, `queue "orders"`, `topic "orders"`. */
  readonly destination: string;
  /** By this machine's clock. */
  readonly since: Date;
  /**
   * Messages of its topics that are put off, with those behind them, wherever they go; counted among {@link AWAY_COUNT_LIMIT} of each of
   * the two. `null`: it is not known, as they have more than 100 topics.
   */
  readonly waiting: number | null;
  readonly lastError: string;
}
export interface OutboxStats {
  readonly transports: Readonly<Record<string, OutboxTransportStats>>;
  readonly total: Pick<TransportStats, 'ready' | 'scheduled' | 'waiting' | 'blocked' | 'dead' | 'blockedKeys'>;
  /** The longest first, by transport; empty in a process whose relay does not run. */
  readonly away: readonly OutboxAwayDestination[];
}
export const AWAY_COUNT_LIMIT = 10_000;

/** Of the status of one transport. */
export interface AwaySource {
  readonly transport: string;
  readonly away: readonly {
    readonly name: string;
    readonly awayFor: number;
    readonly error: string;
    readonly topics: readonly string[] | null;
  }[];
}

interface Beside {
  readonly statuses?: readonly AwaySource[];
  /** Milliseconds since the epoch. */
  readonly now?: number;
}

/** @param ids name → number of the transports that this process knows */
export async function readStats(
  store: Pick<AdminStore, 'stats' | 'relays' | 'parkedByTopic'>,
  ids: ReadonlyMap<string, number>,
  { statuses = [], now = 0 }: Beside = {},
): Promise<OutboxStats & { readonly relays: readonly SeenRelay[] }> {
  const transports: Record<string, OutboxTransportStats> = Object.create(null) as Record<string, OutboxTransportStats>;
  const total = { ready: 0, scheduled: 0, waiting: 0, blocked: 0, dead: 0, blockedKeys: 0 };
  const [all, beat] = await Promise.all([store.stats(), store.relays()]);
  const relays = seeRelays(beat, new Map(all.map(({ transport, name }) => [transport, name])));
  for (const { transport, name, ...counts } of all) {
    transports[name] = { ...counts, configured: ids.get(name) === transport, instances: liveOf(name, relays) };
    for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += counts[key];
  }
  const away: OutboxAwayDestination[] = [];
  for (const status of statuses) away.push(...(await awayOf(status, store, ids.get(status.transport), now)));
  return { transports, total, away, relays };
}

async function awayOf(
  { transport, away }: AwaySource,
  store: Pick<AdminStore, 'parkedByTopic'>,
  id: number | undefined,
  now: number,
): Promise<OutboxAwayDestination[]> {
  const counts = away.length === 0 || id === undefined ? undefined : await store.parkedByTopic?.(id, AWAY_COUNT_LIMIT);
  return away.map(({ name, awayFor, error, topics }) => ({
    transport,
    destination: name,
    since: new Date(now - awayFor),
    waiting: counts === undefined || topics === null ? null : sum(topics.map((topic) => counts.get(topic) ?? 0)),
    lastError: error,
  }));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
