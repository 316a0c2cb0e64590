import type { ReadRange } from '../../store/ready-store.js';
import type { Heads } from './low-water-mark.js';
import { Reach } from './reach.js';

/**
 * Everything below the heads is looked at again and again, whatever the low-water mark says: from the heads downwards, a slice of
 * milliseconds at a time, with a pause of 50 times what it took, of one turn at most. Downwards, because rows that are gone and still stand in
 * the index are the youngest: below them a slice may grow, and 5 billion numbers take 20 of them.
 */
export class FullScan {
  readonly reach = new Reach(SLICE, FIRST);
  /** Until where each bucket was looked at in this turn; `undefined` between two turns. */
  left: ReadRange[] | undefined;
  turnAt: number;
  private pauseUntil = -Infinity;

  /** @param every milliseconds from the begin of a turn to that of the next one, at least */
  constructor(
    readonly every: number,
    now: number,
  ) {
    this.turnAt = now;
  }

  /** What to look at now; nothing in a pause. */
  due(heads: Heads, now: number): readonly ReadRange[] {
    if (now < this.pauseUntil) return [];
    const left = (this.left ?? this.begin(heads, now)).filter(({ bucket }) => heads.has(bucket)); // others were given up
    // With nothing to look at the turn is over. Were it kept, no later one would ever begin.
    this.left = left.length === 0 ? undefined : left;
    return this.reach.cut(left).now;
  }

  begin(heads: Heads, now: number): ReadRange[] {
    if (now - this.turnAt < this.every) return [];
    this.turnAt = now;
    this.reach.restart();
    return everything(heads);
  }

  /** What was due is looked at. @returns milliseconds that it took beyond what any statement takes */
  done(began: number, now: number): number {
    const { rest } = this.reach.cut(this.left ?? []);
    this.left = rest.length === 0 ? undefined : rest;
    this.pause(now - began, now);
    return this.reach.took(now - began);
  }

  /** It took too long: the same place is looked at again in smaller slices, and not from its beginning. */
  cancelled(began: number, now: number): boolean {
    this.pause(now - began, now);
    return this.reach.cancelled(now - began);
  }

  private pause(took: number, now: number): void {
    this.pauseUntil = now + Math.min(took * PAUSE, this.every);
  }
}

/** All that was read of each bucket. */
export function everything(heads: Heads): ReadRange[] {
  return [...heads].filter(([, head]) => head !== '0').map(([bucket, upTo]) => ({ bucket, after: '0', upTo }));
}

/** Milliseconds of a slice, for which reading stands still. */
const SLICE = 5;
/** Times what the last slice took: 2 % of the time is spent in slices. */
const PAUSE = 50;
/** Numbers that the first slice of a turn covers. */
const FIRST = 4_096n;
