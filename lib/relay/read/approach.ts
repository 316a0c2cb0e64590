import type { Clock } from '../../time/clock.js';
import { STATEMENT_TIMEOUT, waitedTooLong } from '../../store/database-errors.js';
import type { Edge, FetchResult, ReadRange, ReadyStore, Snapshot } from '../../store/ready-store.js';
import { AboveLast, hasEnded } from './above-last.js';
import type { LowWaterMark, Heads } from './low-water-mark.js';
import { Reach } from './reach.js';
import type { ReadCost } from './read-cost.js';
import { SnapshotLowWaterMark } from './snapshot-low-water-mark.js';
import { Walks } from './walks.js';

interface Turn {
  readonly buckets: Set<number>;
  /** The last number that was given out when the turn began. */
  readonly last: string;
  /** A transaction with this id or a higher one can only insert above it. */
  readonly fence: bigint;
  /** What is not looked at yet; of all buckets the same numbers. */
  left: readonly ReadRange[];
  /** Of each bucket the lowest row that was met. */
  readonly lowest: Map<number, string>;
  /** Transactions below the fence that were open when this look began; `undefined` before it. */
  open: readonly string[] | undefined;
  /** All at once took too long. */
  inSlices: boolean;
}
/** Where the numbers end; with a fence where `fetch` returns snapshots. */
export type Asked = Pick<Edge, 'session' | 'source'> & Pick<FetchResult, 'snapshot'> & Partial<Pick<Edge, 'fence'>>;
type Store = Pick<ReadyStore, 'edge' | 'lowest'>;

/**
 * A bucket that is read from its beginning, as it was just leased or the connection is another one, is not fetched from
 * number 0. While somebody holds a snapshot, rows that are gone stand there by the million, and a fetch walks over each, again
 * and again while the bucket is empty. Its first row is looked for instead: in one statement that is given up after
 * milliseconds, then from the last number that was given out downwards, one slice in a read, others being read between two.
 * Downwards, because of rows that are there each slice meets one, and rows that are gone are the youngest.
 *
 * The bucket joins the others with its head before that row, from which it is read in {@link Walks}: rows that are gone may
 * stand above it. Its low-water mark is at the last number, once no transaction below the fence is open: an id is older than the numbers
 * of its rows, so nothing can appear any more up to there. One that ends within the look may have left a row where nobody
 * looks again: the look begins again. One that stays open pins the low-water mark.
 */
export class Approach {
  /** Buckets of the next turn. */
  readonly waiting = new Set<number>();
  readonly walks = new Walks();
  readonly above = new AboveLast();
  private turn: Turn | undefined;
  private readonly reach = new Reach(SLICE, FIRST);
  /** Milliseconds after which the server gives up a slice. */
  private limit = LIMIT;
  /** Set by the relay. */
  cost: ReadCost | undefined;

  constructor(
    readonly store: Required<Store>,
    readonly transport: number,
    readonly lowWaterMark: SnapshotLowWaterMark,
    readonly clock: Clock,
  ) {}

  /** `undefined` where no snapshot proves anything: there a bucket is fetched from its beginning. */
  static on(store: Store, transport: number, lowWaterMark: LowWaterMark, clock: Clock): Approach | undefined {
    const { edge, lowest } = store;
    if (edge === undefined || lowest === undefined || !(lowWaterMark instanceof SnapshotLowWaterMark)) return undefined;
    return new Approach(store as Required<Store>, transport, lowWaterMark, clock);
  }

  get isOn(): boolean {
    return this.waiting.size > 0 || this.turn !== undefined || this.walks.isOn || this.above.isOn;
  }

  has(bucket: number): boolean {
    return this.waiting.has(bucket) || this.turn?.buckets.has(bucket) === true;
  }

  add(bucket: number): void {
    this.walks.forget(bucket);
    this.above.add(bucket);
    this.waiting.add(bucket);
  }

  forget(bucket: number): void {
    this.walks.forget(bucket);
    this.above.forget(bucket);
    this.waiting.delete(bucket);
    if (this.turn?.buckets.delete(bucket) === true && this.turn.buckets.size === 0) this.turn = undefined;
  }

  /** What was found holds no longer. */
  restart(): void {
    for (const bucket of this.turn?.buckets ?? []) this.waiting.add(bucket);
    this.turn = undefined;
  }

  /** The next turn needs to know the edge. */
  get asksEdge(): boolean {
    return this.turn === undefined && this.waiting.size > 0;
  }

  edge(): Promise<Asked> {
    return this.store.edge();
  }

  /**
   * @param given given up, and had again, since the read began: what it concludes is not of them, and the next one takes them
   * @returns buckets that are fetched from their beginning, as nobody says what the last number is, or there is none
   */
  begin({ source, fence }: Pick<Asked, 'source' | 'fence'>, given: ReadonlySet<number>): Heads {
    const buckets = new Set([...this.waiting].filter((bucket) => !given.has(bucket)));
    if (buckets.size === 0) return NONE;
    for (const bucket of buckets) this.waiting.delete(bucket);
    const last = source?.last ?? '0';
    if (last === '0') return new Map([...buckets].map((bucket) => [bucket, '0']));
    this.limit = LIMIT;
    this.turn = {
      buckets,
      last,
      fence: BigInt(fence as string),
      left: [],
      lowest: new Map(),
      open: undefined,
      inSlices: false,
    };
    this.lookFromTop(this.turn);
    return NONE;
  }

  /** One slice. @returns until where the buckets are read that join now */
  async goOn(): Promise<Heads> {
    const { turn } = this;
    if (turn === undefined) return NONE;
    if (turn.left.length > 0) await this.slice(turn);
    if (this.turn !== turn) return NONE; // given up, or begun anew, meanwhile
    const open = turn.open ?? [];
    const { previous } = this.lowWaterMark;
    if (previous !== undefined && open.some((id) => hasEnded(id, previous))) this.lookFromTop(turn);
    // What ends from the last read on, the low-water mark hears of with the next one.
    if (turn.left.length > 0 || (open.length > 0 && previous === undefined)) return NONE;
    this.turn = undefined;
    this.lowWaterMark.join(turn.buckets, turn.last, turn.fence, open.length === 0);
    const points = new Map<number, string>();
    for (const bucket of turn.buckets) {
      const first = turn.lowest.get(bucket);
      points.set(bucket, before(first) ?? turn.last);
      if (first !== undefined) this.walks.begin(bucket, turn.last);
    }
    return points;
  }

  private lookFromTop(turn: Turn): void {
    turn.left = [...turn.buckets].map((bucket) => ({ bucket, after: '0', upTo: turn.last }));
    turn.lowest.clear();
    turn.open = undefined;
    this.reach.restart();
  }

  private async slice(turn: Turn): Promise<void> {
    const left = turn.left.filter(({ bucket }) => turn.buckets.has(bucket)); // others were given up
    const { now, rest } = turn.inSlices ? this.reach.cut(left) : { now: left, rest: [] };
    const began = this.clock.monotonic();
    const took = (): number => this.clock.monotonic() - began;
    try {
      const { places, snapshot } = await this.store.lowest(this.transport, now, this.limit);
      turn.left = rest;
      turn.open ??= (snapshot as Snapshot).open.filter((id) => BigInt(id) < turn.fence);
      for (const { bucket, seq } of places) turn.lowest.set(bucket, seq); // lower than what was met before
      if (!turn.inSlices) return;
      const walked = this.reach.took(took());
      this.cost?.walked(walked);
    } catch (error) {
      if (!waitedTooLong(error) || this.limit >= STATEMENT_TIMEOUT) throw error;
      this.cost?.took(took());
      // A server on which the smallest slice takes too long is busy.
      if (turn.inSlices && !this.reach.cancelled(took())) this.limit = Math.min(2 * this.limit, STATEMENT_TIMEOUT);
      turn.inSlices = true;
    }
  }
}

const NONE: Heads = new Map();
/** Milliseconds of a slice, for which reading stands still; and at most. */
const SLICE = 5;
const LIMIT = 50;
/** Numbers that the first slice covers. */
const FIRST = 4_096n;

const before = (seq: string | undefined): string | undefined =>
  seq === undefined ? undefined : (BigInt(seq) - 1n).toString();
