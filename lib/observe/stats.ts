import type { TransportStats } from '../store/admin-store.js';
import type { Roles } from '../store/outbox-store.js';
import { liveOf, seeRelays, type SeenRelay } from './seen-relays.js';

/** What waits where, of one transport. Counted by the database when asked. */
export interface OutboxTransportStats extends Omit<
  TransportStats,
  'transport' | 'name' | 'heads' | 'readOnly' | 'topics'
> {
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
   * Messages of its topics that are put off, with those behind them, wherever they go; counted among 100,000 of each of
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
  { admin, leases }: Roles<'admin' | 'leases'>,
  ids: ReadonlyMap<string, number>,
  { statuses = [], now = 0 }: Beside = {},
): Promise<OutboxStats> {
  const transports: Record<string, OutboxTransportStats> = Object.create(null) as Record<string, OutboxTransportStats>;
  const total = { ready: 0, scheduled: 0, waiting: 0, blocked: 0, dead: 0, blockedKeys: 0 };
  const gone = statuses.filter(({ away }) => away.length > 0);
  const topicsOf = gone.flatMap(({ transport }) => ids.get(transport) ?? []);
  const [all, beat] = await Promise.all([admin.stats({ topicsOf }), leases.living('gone')]);
  const relays = seeRelays(beat, new Map(all.map(({ transport, name }) => [transport, name])));
  const topics = new Map<string, TransportStats['topics']>();
  for (const one of all) {
    transports[one.name] = statsOf(one, ids, relays);
    topics.set(one.name, one.topics);
    for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += one[key];
  }
  return { transports, total, away: gone.flatMap((status) => awayOf(status, topics.get(status.transport), now)) };
}

export function statsOf(
  { transport, name, heads: _, readOnly: _readOnly, topics: _topics, ...counts }: TransportStats,
  ids: ReadonlyMap<string, number>,
  relays: readonly SeenRelay[],
): OutboxTransportStats {
  return { ...counts, configured: ids.get(name) === transport, instances: liveOf(name, relays) };
}

const awayOf = (
  { transport, away }: AwaySource,
  counts: TransportStats['topics'],
  now: number,
): OutboxAwayDestination[] =>
  away.map(({ name, awayFor, error, topics }) => ({
    transport,
    destination: name,
    since: new Date(now - awayFor),
    waiting: counts === undefined || topics === null ? null : sum(topics.map((topic) => counts.get(topic) ?? 0)),
    lastError: error,
  }));

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
