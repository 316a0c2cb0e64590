import { compareSeq } from '../../outbox-message.js';
import {
  BUCKET_READY_LIMIT,
  BULK_TIMEOUT,
  type BucketRow,
  type InspectStore,
  type RowPage,
  type StoredRow,
} from '../../store/inspect-store.js';

export interface LookSources {
  readonly inspect: Pick<InspectStore, 'bounds' | 'find' | 'buckets'>;
  /** The number of the transport that is meant. */
  readonly transport: number | undefined;
}
/** All that was committed when the wait began has one of these numbers, or lower ones. */
export interface Mark {
  /** Of ready rows; `null`: nothing was ready. */
  readonly highest: string | null;
  /** Of rows that were parked. */
  readonly parkedUpTo: string | null;
  /** What was scheduled for later then is not waited for. */
  readonly at: string;
}
/** What is left of it. */
export interface Left {
  /** Buckets that have some. */
  readonly ready: readonly BucketRow[];
  /** Rows that wait for a retry, are blocked, or were scheduled and are due. */
  readonly parked: readonly StoredRow[];
  /** Whether these are all. */
  readonly isExact: boolean;
}

/** Parked rows that are read at once. */
const PAGE = 5_000;

/**
 * What waits in both tables is looked for: first ready, then parked, as messages move only in this direction. A number that was given
 * out before the mark may be committed behind it: that row is waited for, too, once it is there.
 */
export class DrainLook {
  /** Up to here nothing is left among the parked rows, since nothing was ready any more. */
  private after: string | null = null;

  constructor(
    private readonly sources: LookSources,
    readonly mark: Mark,
  ) {}

  static async begin(sources: LookSources): Promise<DrainLook> {
    const { inspect } = sources;
    const { rows } = await inspect.find({ state: 'ready', after: null, limit: 1, backwards: true });
    const { upTo: parkedUpTo, at } = await inspect.bounds();
    return new DrainLook(sources, { highest: rows[0]?.seq ?? null, parkedUpTo, at });
  }

  /**
   * Of the parked rows a look reads one page, or goes on to the first one that has some, as thousands may be scheduled before it.
   * @param goesOn called between two pages; `false`: the time is over
   */
  async left(goesOn: () => boolean): Promise<Left> {
    const { highest } = this.mark;
    const { inspect, transport } = this.sources;
    const buckets = highest === null ? [] : await inspect.buckets(transport, highest);
    const ready = buckets.filter(({ ready: count }) => count > 0);
    if (ready.length === 0) return this.leftParked(goesOn);
    const { rows, next } = await this.page(null);
    const isCounted = ready.every(({ ready: count }) => count < BUCKET_READY_LIMIT);
    return { ready, parked: rows, isExact: isCounted && next === null };
  }

  private async leftParked(goesOn: () => boolean): Promise<Left> {
    for (;;) {
      const { rows, next } = await this.page(this.after);
      if (rows.length > 0 || next === null) return { ready: [], parked: rows, isExact: next === null };
      this.after = next;
      if (!goesOn()) return { ready: [], parked: [], isExact: false };
    }
  }

  /** A bounded look, in the order of the rows' numbers, which they keep. */
  private async page(after: string | null): Promise<RowPage> {
    const { inspect, transport } = this.sources;
    const meant = { states: ['scheduled', 'waiting', 'blocked'] as const, scheduledUpTo: this.mark.at };
    const parked = { ...meant, bounds: await inspect.bounds() };
    const request = { state: 'parked', parked, after, limit: PAGE, timeout: BULK_TIMEOUT } as const;
    const { rows, next } = await inspect.find({ ...request, ...(transport === undefined ? {} : { transport }) });
    return { rows: rows.filter((row) => this.isMeant(row)), next };
  }

  /** What was scheduled at the enqueue may have no number (MariaDB, MySQL). */
  private isMeant({ seq, rowId }: StoredRow): boolean {
    const { highest, parkedUpTo } = this.mark;
    const wasParked = parkedUpTo !== null && compareSeq(rowId as string, parkedUpTo) <= 0;
    return wasParked || (highest !== null && seq !== '0' && compareSeq(seq, highest) <= 0);
  }
}

export const isNone = ({ ready, parked, isExact }: Left): boolean =>
  isExact && ready.length === 0 && parked.length === 0;

export const countOf = ({ ready, parked }: Left): number =>
  parked.length + ready.reduce((sum, { ready: count }) => sum + count, 0);

/** Numbers that lie between the first message of each bucket and the mark: what a count that ends at a limit does not tell. */
export function distanceOf({ ready, parked }: Left, { highest }: Mark): number {
  const ofReady = ready.map(({ first }) => Number(BigInt(highest ?? 0) - BigInt(first ?? 0)) + 1);
  return parked.length + ofReady.reduce((sum, distance) => sum + distance, 0);
}
