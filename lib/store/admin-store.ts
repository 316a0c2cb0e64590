import type { ParkedState } from '../outbox-message.js';
import type { Beat } from './lease-store.js';

/** SEAM: what operators and `health()` ask, and what the cleaner does. `OutboxStore` says what holds for all roles. */

export type Change = 'requeue' | 'discard' | 'cancel';
/** Where a message can be that waits. */
export type MessageState = 'ready' | ParkedState;
/** What each call can change among parked messages. */
export const CHANGES: Readonly<Record<Change, readonly ParkedState[]>> = {
  requeue: ['waiting', 'blocked', 'dead'],
  discard: ['waiting', 'blocked', 'dead'],
  cancel: ['scheduled', 'waiting', 'blocked', 'dead'],
};

export interface AdminStore {
  stats(): Promise<TransportStats[]>;
  /** Relays as their rows tell, those among them that have run out and nobody has removed yet; those that ran out last come first. Without one, `now` is any number. */
  relays(): Promise<Pick<Beat, 'instances' | 'now'>>;
  /**
   * How many messages of a transport wait for a retry, and how many behind them, by topic: among `limit` of each at most, so that it
   * costs the same whatever is parked. Asked for `stats()` while a destination is away. Absent: it does not say.
   */
  parkedByTopic?(transport: number, limit: number): Promise<ReadonlyMap<string, number>>;
  /**
   * What a probe asks every second: the counts, each up to a limit, and the first ready message of each bucket that is named. It
   * costs the same whatever waits. Absent: `stats` is asked.
   * @returns `undefined` when that took longer than {@link GLANCE_TIMEOUT}: rows that are dead and not removed yet are come past
   */
  glance?(request: GlanceRequest): Promise<TransportGlance[] | undefined>;
}
export interface GlanceRequest {
  /** Of each count, about: those by bucket take their part of it from each. */
  readonly limit: number;
  readonly buckets: readonly number[];
  /** Where to begin, exclusive; '0': nothing is known. */
  readonly after: (transport: number, bucket: number) => string;
}
/** What is ready is what the heads tell. */
export interface TransportGlance extends Omit<TransportStats, 'ready' | 'readyIsExact' | 'oldestReadyAge'> {
  readonly heads: readonly Head[];
  /** Whether the database takes no writes, as a replica does: nothing can be enqueued there. */
  readonly readOnly?: boolean;
}
/** The first ready message of a bucket. */
export interface Head {
  readonly bucket: number;
  readonly seq: string;
  readonly id: string;
  /** Milliseconds; `null`: its time is none. */
  readonly age: number | null;
  /** Ready messages of the bucket, itself among them, up to {@link perBucket}. */
  readonly ready: number;
  /** Who has leased the bucket, for how many milliseconds more, and whether it was heard of lately. */
  readonly lease: { readonly owner: string; readonly remaining: number; readonly alive: boolean } | null;
}
/** How many of a bucket are counted. */
export const perBucket = ({ limit, buckets }: Pick<GlanceRequest, 'limit' | 'buckets'>): number =>
  Math.ceil(limit / Math.max(1, buckets.length));
/** Milliseconds. */
export const GLANCE_TIMEOUT = 1_000;

export interface TransportStats {
  readonly transport: number;
  /** As it was registered. */
  readonly name: string;
  /** Counted up to `STATS_COUNT_LIMIT` rows, then `ready` is that limit and `readyIsExact` false. */
  readonly ready: number;
  readonly readyIsExact: boolean;
  readonly scheduled: number;
  readonly waiting: number;
  readonly blocked: number;
  readonly dead: number;
  readonly blockedKeys: number;
  /** Age of the oldest ready message, milliseconds; `null` without one. */
  readonly oldestReadyAge: number | null;
  readonly leasedBuckets: number;
  /** Buckets without a lease row, or whose row is hidden from this login: nobody publishes what lies in them. */
  readonly missingLeases?: number;
  /** Whether row security hides messages from this login: counts are of those that it sees. */
  readonly rowsHidden?: boolean;
  /** Of `waiting`: how many have failed `OFTEN` times or more; counted among `OFTEN_LOOK_LIMIT` of them at most. */
  readonly failingOften?: number;
  /** The most attempts that one of these has; 0 without one. */
  readonly mostAttempts?: number;
  /** Counts that stopped at a limit: there may be more. */
  readonly atLeast?: readonly BoundedCount[];
}
export type BoundedCount = 'scheduled' | 'waiting' | 'blocked' | 'dead' | 'blockedKeys';
/** Attempts after which a message that still fails is told of: with the default backoff, minutes. */
export const OFTEN = 10;
export const OFTEN_LOOK_LIMIT = 10_000;
export const STATS_COUNT_LIMIT = 100_000;
/** Rows of relays that are read. */
export const RELAYS_LIMIT = 1_000;

/** `looked`: old keys that it came past, the removed ones among them; fewer than `limit`: it came to the end. */
export interface DedupReport {
  readonly removed: number;
  readonly looked: number;
}
export interface CleanStore {
  /** Each deletes at most `limit` rows older than `age` milliseconds and tells how many. Never a row that is not final. */
  cleanArchive(age: number, limit: number): Promise<number>;
  /** @param announcedOnly leave those that the dead-letter hook has not been told of (`ParkedStore.markAnnounced`) */
  cleanDead(age: number, limit: number, announcedOnly: boolean): Promise<number>;
  /**
   * Never a key whose message is not settled yet. One that has to look at these, too, goes on behind them at the next
   * call, and begins anew after the end.
   */
  cleanDedup(age: number, limit: number): Promise<DedupReport>;
  /** What operators did. Absent: the store writes none of it down. */
  cleanAudit?(age: number, limit: number): Promise<number>;
}

/** Time passes for some messages, and for nothing else. Tests ask for it. */
export interface AgingStore {
  /**
   * Moves every time of these messages into the past by so many milliseconds, wherever they wait or stand: what is due, what
   * `retry.maxAge` and the retention go by. Their order by time stays. Rows that somebody else has locked stay as they are.
   */
  age(ids: readonly string[], ms: number): Promise<void>;
}
