import { compareSeq, lowerSeq } from '../../outbox-message.js';
import type { ReadPosition, Snapshot } from '../../store/ready-store.js';
import type { Heads } from './low-water-mark.js';
import type { Fetched } from './read-result.js';
import { Walks } from './walks.js';

/**
 * What stands above the last number that was given out: nothing, unless a sequence was set back. No head may pass that number, as
 * new rows come right above it. So where rows that are gone stand there, and a held snapshot keeps these in the index, each
 * read to the end would walk over all of them.
 *
 * A bucket that is read from its beginning is read to the end within milliseconds, or not at all: then its reads are cut off
 * a little above the last number, and what stands above is looked for upwards, by milliseconds, once. Those rows are older
 * than the look. Only a transaction that was open when it began can still leave one there: where one ended, the look begins again.
 */
export class AboveLast {
  /** Buckets of which nobody saw the end since they were read from their beginning, or since the last try. */
  readonly unread = new Set<number>();
  /** Bucket → the last number that was given out when its reads were cut off. */
  readonly cut = new Map<number, string>();
  /** Buckets that are looked through: up to where. */
  readonly at = new Map<number, string>();
  readonly walks = new Walks();
  /** Transactions that may leave a row where nobody looks again; as of the first slice. */
  private readonly open = new Set<string>();
  /** Those of the next slice are to be remembered, too. */
  private begins = false;
  /** Monotonic. */
  private triedAt = 0;
  /** Rows left with the last slice: new ones come before the next one. */
  rests = false;
  /** The last read brought all that it may. */
  isBacklog = false;

  /** Some rows may not be found yet. */
  get isOn(): boolean {
    return this.at.size > 0;
  }

  add(bucket: number): void {
    this.forget(bucket);
    this.unread.add(bucket);
  }

  forget(bucket: number): void {
    this.unread.delete(bucket);
    this.cut.delete(bucket);
    this.done(bucket);
    if (this.cut.size === 0) this.open.clear();
  }

  /** @param last the last number that was given out, if that is known */
  bounded(bucket: number, after: string, last: string | undefined): ReadPosition {
    if (last === undefined || !this.cut.has(bucket) || this.unread.has(bucket)) return { bucket, after };
    return { bucket, after, upTo: String(BigInt(higher(after, last)) + ROOM) };
  }

  /** Milliseconds after which a read is given up that is the first one to some end. Behind a backlog it does not get there. */
  limitOf(positions: readonly ReadPosition[], last: string | undefined): number | undefined {
    if (last === undefined || this.unread.size === 0) return undefined;
    const isTry = ({ bucket, upTo }: ReadPosition): boolean =>
      upTo === undefined && this.unread.has(bucket) && (!this.isBacklog || this.cut.has(bucket));
    return positions.some(isTry) ? LIMIT : undefined;
  }

  /** @returns whether less is asked for from now on */
  cutOff(positions: readonly ReadPosition[], last: string | undefined): boolean {
    let isLess = false;
    for (const { bucket, upTo } of positions) {
      if (upTo !== undefined || last === undefined || !this.unread.delete(bucket)) continue;
      isLess = true;
      if (this.cut.has(bucket)) continue; // what is above is known
      this.cut.set(bucket, last);
      this.lookAgain(bucket);
      this.begins = true;
    }
    return isLess;
  }

  /** Something above the head is given back. */
  lookAgain(bucket: number): void {
    const last = this.cut.get(bucket);
    if (last === undefined) return;
    this.done(bucket);
    this.at.set(bucket, last);
    this.walks.begin(bucket, HIGHEST);
  }

  /**
   * These were read, by a fetch of the heads.
   * @param last the last number that was given out, as of this read
   * @returns until where buckets are read that nothing more is in
   */
  read(
    positions: readonly ReadPosition[],
    isWhole: (bucket: number) => boolean,
    heads: Heads,
    last: string | undefined,
  ): Heads {
    const points = new Map<number, string>();
    if (this.unread.size + this.cut.size === 0) return points;
    for (const { bucket, upTo } of positions) {
      if (!isWhole(bucket)) continue;
      if (upTo === undefined) this.forget(bucket);
      else if (last !== undefined && this.cut.has(bucket))
        points.set(bucket, higher(heads.get(bucket) ?? '0', lowerSeq(upTo, last)));
    }
    return points;
  }

  /** What to look through now, of buckets that are read up to where it begins: what is older goes first. */
  due(heads: Heads, now: number, previous: Snapshot | undefined): ReadPosition[] {
    if (this.rests || this.cut.size === 0) return this.rest();
    if (previous !== undefined) for (const id of this.open) if (hasEnded(id, previous)) this.beginAgain(id);
    if (this.at.size === 0 && now - this.triedAt >= TRY_EVERY) {
      this.triedAt = now;
      for (const bucket of this.cut.keys()) this.unread.add(bucket);
    }
    const isReached = (bucket: number): boolean =>
      compareSeq(heads.get(bucket) ?? '0', this.cut.get(bucket) ?? HIGHEST) >= 0;
    return [...this.at].filter(([bucket]) => isReached(bucket)).map((place) => this.walks.bounded(...place));
  }

  /** A slice was read. @param most rows that one read returns */
  looked(positions: readonly ReadPosition[], { messages, snapshot, took }: Fetched, most: number): void {
    if (this.begins) for (const id of snapshot?.open ?? []) this.open.add(id);
    this.begins = false;
    const isAll = messages.length < most;
    const read = new Set(positions.map(({ bucket }) => bucket));
    for (const { bucket, seq } of messages) if (read.has(bucket)) this.at.set(bucket, seq);
    for (const [bucket, seq] of this.walks.read(positions, messages.length, took, () => isAll))
      this.at.set(bucket, seq);
    for (const bucket of read) if (this.at.get(bucket) === HIGHEST) this.done(bucket);
  }

  private rest(): [] {
    this.rests = false;
    return [];
  }

  private beginAgain(ended: string): void {
    this.open.delete(ended);
    for (const bucket of this.cut.keys()) this.lookAgain(bucket);
  }

  private done(bucket: number): void {
    this.at.delete(bucket);
    this.walks.forget(bucket);
  }
}

export const hasEnded = (id: string, { xmax, open }: Snapshot): boolean =>
  BigInt(id) < BigInt(xmax) && !open.includes(id);

const higher = (a: string, b: string): string => (compareSeq(a, b) > 0 ? a : b);
/** No number is above it. */
const HIGHEST = String(2n ** 63n - 1n);
/** Numbers that may be given out between two reads, and are read with one. */
const ROOM = 1_024n;
/** Milliseconds of a read to the end. */
const LIMIT = 50;
/** Milliseconds between two of those where reads are cut off: 1 % of the time. */
const TRY_EVERY = 5_000;
