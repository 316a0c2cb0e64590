/** SEAM: the archive in partitions by published time. `OutboxStore` says what holds for all roles. */

/** Times are milliseconds since the epoch: `from` inclusive, `to` exclusive. */
export interface ArchivePartition {
  /** Without what the tables of the outbox begin with: `p202503`. */
  readonly name: string;
  /** `null`: all before `to` that no other partition has. */
  readonly from: number | null;
  /** `Infinity`: without an end. */
  readonly to: number;
}
/** One that is to be made. */
export interface PlannedPartition extends ArchivePartition {
  readonly from: number;
}
export interface ArchiveLayout {
  readonly kind: 'plain' | 'partitioned';
  /** What of the partitioning is not as it must be, in words. */
  readonly problems: readonly string[];
  /** By time, without the catch-all. */
  readonly partitions: readonly ArchivePartition[];
  /** Whether new ones can only stand behind the last one. */
  readonly appendOnly: boolean;
  /** Whether rows wait beside the archive to be moved into their partitions. */
  readonly aside: boolean;
  /** Another one each time that rows were put beside the archive; empty: without partitions. */
  readonly catchAll: string;
  /** The database's time. */
  readonly now: number;
}
export interface PublishedSpan {
  readonly oldest: number;
  readonly newest: number;
}
export interface MoveReport {
  readonly moved: number;
  /** Rows that were too old to be moved. */
  readonly removed: number;
}

export interface PartitionStore {
  /** Reads the catalog only. */
  layout(): Promise<ArchiveLayout>;
  /**
   * Work on one session that has the lock of all maintainers of these tables. The lock is never waited for.
   * @param lockTimeout milliseconds that a change of a table waits for it
   * @returns `undefined` when another session has the lock
   * @throws OutboxError when the session ends: the lock is lost with it, and no later step runs
   */
  maintain<T>(lockTimeout: number, work: (session: PartitionSession) => Promise<T>): Promise<T | undefined>;
}

/** Each change waits for the table no longer than the lock timeout, a few times, then throws an OutboxError `TIMEOUT`. */
export interface PartitionSession {
  layout(): Promise<ArchiveLayout>;
  /** `undefined`: no row there. */
  span(where: 'archive' | 'catchAll' | 'aside'): Promise<PublishedSpan | undefined>;
  /** @returns what is in the way of this one alone, in words; `undefined`: it is made */
  create(partition: PlannedPartition): Promise<string | undefined>;
  /**
   * Puts the rows of the catch-all aside, by name, and an empty catch-all in its place.
   * @param current made with it, so that what is published meanwhile has its partition
   */
  setAside(current: PlannedPartition | undefined): Promise<void>;
  /**
   * Moves the oldest rows that are aside into the archive, and removes those from before `keepFrom`. Without a row left the
   * place itself is removed, and `undefined` is returned.
   */
  moveBack(limit: number, keepFrom: number): Promise<MoveReport | undefined>;
  /**
   * Looks under the lock of the table, then drops.
   * @returns `false`, and nothing was dropped, when the partition has a row from `before` or later
   */
  drop(name: string, before: number): Promise<boolean>;
  /**
   * Makes the plain archive a partitioned one; its rows are aside then.
   * @param partitions in their order; where they can be made later without a lock, only what is published now needs its own
   */
  convert(partitions: readonly PlannedPartition[]): Promise<void>;
}

export const holds = ({ from, to }: ArchivePartition, at: number): boolean => (from ?? -Infinity) <= at && at < to;

/** Whether what is published now has a partition. */
export const isCovered = ({ partitions, now }: Pick<ArchiveLayout, 'partitions' | 'now'>): boolean =>
  partitions.some((each) => holds(each, now));
