import type { ParkedState } from '../outbox-message.js';

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
  /**
   * What waits where, by transport. Every count stops at a limit: it costs the same whatever waits.
   * @throws OutboxError `TIMEOUT`: that took longer than `within`, as rows that are dead and not removed yet are come past
   */
  stats(request?: StatsRequest): Promise<TransportStats[]>;
}
export interface StatsRequest {
  /** Of each count, about. Default {@link STATS_COUNT_LIMIT}. */
  readonly limit?: number;
  /** Milliseconds. Default {@link STATS_TIMEOUT}. */
  readonly within?: number;
  /** What a probe asks every second: of what is ready only the first messages of these buckets, of each count a part from each bucket. */
  readonly look?: {
    readonly buckets: readonly number[];
    /** Where to begin, exclusive; '0': nothing is known. */
    readonly after: (transport: number, bucket: number) => string;
  };
  /** Transports whose messages are also counted by topic. */
  readonly topicsOf?: readonly number[];
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
export const perBucket = (limit: number, buckets: readonly number[]): number =>
  Math.ceil(limit / Math.max(1, buckets.length));
/** Milliseconds. */
export const STATS_TIMEOUT = 30_000;

export interface TransportStats {
  readonly transport: number;
  /** As it was registered. */
  readonly name: string;
  /** The first ready message of each bucket that has one. */
  readonly heads: readonly Head[];
  /** Counted up to the limit, then `ready` is that limit and `readyIsExact` false. */
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
  /** Whether the database takes no writes, as a replica does: nothing can be enqueued there. */
  readonly readOnly?: boolean;
  /** How many messages wait for a retry and how many behind them, by topic; among so many of each of the two as the limit says. */
  readonly topics?: ReadonlyMap<string, number>;
}
export type BoundedCount = 'scheduled' | 'waiting' | 'blocked' | 'dead' | 'blockedKeys';
/** Attempts after which a message that still fails is told of: with the default backoff, minutes. */
export const OFTEN = 10;
export const OFTEN_LOOK_LIMIT = 10_000;
export const STATS_COUNT_LIMIT = 100_000;

/**
 * What the cleaner deletes. `announced`: dead messages that the dead-letter hook has been told of (`ParkedStore.markAnnounced`); `dead`: all
 * that are. `dedup`: keys whose message is settled. `audit`: what operators did.
 */
export type Cleaning = 'archive' | 'announced' | 'dead' | 'dedup' | 'audit';
/** `looked`: rows of that age that it came past, the removed ones among them; fewer than `limit`: it came to the end. */
export interface CleanReport {
  readonly removed: number;
  readonly looked: number;
}
export interface CleanStore {
  /**
   * Deletes rows older than `age` milliseconds, and looks at `limit` of them at most. Never a row that is not final. Where it has to
   * look at rows that stay, it goes on behind them at the next call, and begins anew after the end.
   */
  clean(what: Cleaning, age: number, limit: number): Promise<CleanReport>;
}

/** Time passes for some messages, and for nothing else. Tests ask for it. */
export interface AgingStore {
  /**
   * Moves every time of these messages into the past by so many milliseconds, wherever they wait or stand: what is due, what
   * `retry.maxAge` and the retention go by. Their order by time stays. Rows that somebody else has locked stay as they are.
   */
  age(ids: readonly string[], ms: number): Promise<void>;
}
