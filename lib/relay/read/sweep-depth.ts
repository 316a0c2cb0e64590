/**
 * Whether a sweep covers all above the low-water mark. It does, unless that costs: rows that are gone and still stand in the index (a
 * held snapshot, a purge that lags) are walked over. Then a pause of 50 times what it cost follows each, in which sweeps
 * cover what is above the upper mark. A machine that is busy, or a network, is no reason: all of a few in a row must have taken longer.
 */
export class SweepDepth {
  /** Milliseconds of the last deep sweeps. */
  private readonly deep: number[] = [];
  /** The quickest sweep of all: what any statement takes here. */
  private least = Infinity;
  private pauseUntil = -Infinity;
  /** A sweep that was not deep has gone before this one. */
  skipped = false;

  isDeep(now: number): boolean {
    return now >= this.pauseUntil;
  }

  /** What a deep sweep found was not published: the next one is deep, too. */
  again(): void {
    this.pauseUntil = -Infinity;
  }

  took(deep: boolean, ms: number, now: number): void {
    this.least = Math.min(this.least, ms);
    this.skipped = !deep;
    if (!deep) return;
    this.deep.push(ms);
    if (this.deep.length > FEW) this.deep.shift();
    const cost = this.deep.length < FEW ? 0 : Math.min(...this.deep) - this.least;
    if (cost > FREE) this.pauseUntil = now + Math.min(cost * PAUSE, LONGEST);
  }
}

/** Sweeps. */
const FEW = 4;
/** Milliseconds that a deep sweep may take more than the quickest one. */
const FREE = 5;
/** Times what a deep sweep took more: 2 % of the time goes into it. */
const PAUSE = 50;
/** Milliseconds. */
const LONGEST = 30_000;
