import type { ReadPosition } from '../store/ready-store.js';
import type { Heads } from './floor.js';
import { Reach } from './reach.js';

/**
 * Buckets that have a row below others that are gone and still stand in the index, as somebody holds a snapshot. A read from
 * there to the end would walk over all of them at once, and each later one again, until a newer row comes. So a read goes up by
 * milliseconds, and the head with it where nothing was, to the last number that was given out when the bucket joined.
 */
export class Walks {
  /** Of each bucket where its walk ends. @internal */
  readonly ends = new Map<number, string>();
  /** @internal */ readonly reach = new Reach(SLICE, FIRST);

  get isOn(): boolean {
    return this.ends.size > 0;
  }

  begin(bucket: number, upTo: string): void {
    if (!this.isOn) this.reach.restart();
    this.ends.set(bucket, upTo);
  }

  forget(bucket: number): void {
    this.ends.delete(bucket);
  }

  bounded({ bucket, after }: ReadPosition): ReadPosition {
    const end = this.ends.get(bucket);
    if (end === undefined) return { bucket, after };
    const upTo = BigInt(after) + this.reach.width;
    return { bucket, after, upTo: upTo < BigInt(end) ? String(upTo) : end };
  }

  /**
   * These were read.
   * @param isWhole of a bucket, whether all in it was returned
   * @returns until where the buckets are read that nothing more is in
   */
  read(positions: readonly ReadPosition[], ms: number, isWhole: (bucket: number) => boolean): Heads {
    if (positions.some(({ upTo }) => upTo !== undefined)) this.reach.took(ms);
    const points = new Map<number, string>();
    for (const { bucket, upTo } of positions) {
      if (upTo === undefined || !isWhole(bucket)) continue;
      points.set(bucket, upTo);
      if (upTo === this.ends.get(bucket)) this.ends.delete(bucket);
    }
    return points;
  }

  /** @returns whether less may be asked for */
  cancelled(positions: readonly ReadPosition[], ms: number): boolean {
    return positions.some(({ upTo }) => upTo !== undefined) && this.reach.cancelled(ms);
  }
}

/** Milliseconds of a read, for which others stand still. */
const SLICE = 5;
/** Numbers that the first one covers. */
const FIRST = 4_096n;
