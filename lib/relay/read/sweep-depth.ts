/**
 * Whether a sweep covers all above the low-water mark. It does, unless that costs: rows that are gone and still stand in the index (a
 * held snapshot, a purge that lags) are walked over. Then a pause of 50 times what it cost more follows each, in which sweeps
 * cover what is above the upper mark. A machine that is busy, or a network, is no reason: a number of
 * them in a row must have taken longer, and by more than they differ.
 */
export class SweepDepth {
  /** Milliseconds of the last deep sweeps and of the last others. */
  private readonly deep: number[] = [];
  private readonly others: number[] = [];
  /** The quickest of all: what any statement takes here. */
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
    keep(deep ? this.deep : this.others, ms, deep ? FEW : SOME);
    this.skipped = !deep;
    if (!deep || this.deep.length < FEW) return;
    const usual = this.others.length === 0 ? this.least : Math.min(...this.others);
    const [quickest = 0, middle = 0] = [Math.min(...this.deep), median(this.deep)];
    const more = quickest - usual;
    // What differs from one to the next by so much is the way to the server.
    this.pauseUntil =
      more > Math.max(FREE, 2 * (middle - quickest)) ? now + Math.min(more * PAUSE, LONGEST) : -Infinity;
  }
}

function keep(list: number[], ms: number, most: number): void {
  list.push(ms);
  if (list.length > most) list.shift();
}

const median = (list: readonly number[]): number | undefined =>
  [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

const FEW = 16;
const SOME = 16;
/** Milliseconds that a deep sweep may take more than another. */
const FREE = 0.5;
/** Times what a deep sweep took more: 2 % of the time goes into it. */
const PAUSE = 50;
/** Milliseconds. */
const LONGEST = 30_000;
