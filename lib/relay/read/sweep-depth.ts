/**
 * Whether a sweep covers all above the low-water mark. It does, unless that costs: rows that are gone and still stand in the index (a
 * held snapshot, a purge that lags) are walked over. Then a pause of 50 times what it cost more follows each, in which sweeps
 * cover what is above the upper mark. A machine that is busy, or a network, is no reason: a number of them in a row must have
 * taken longer, and by more than they differ. A few are enough where each took a quarter of a second longer.
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
    const last = deep ? this.deep : this.others;
    last.push(ms);
    if (last.length > MANY) last.shift();
    this.skipped = !deep;
    if (!deep) return;
    const usual = this.others.length === 0 ? this.least : Math.min(...this.others);
    const cost = costOf(this.deep.slice(-FEW), FEW, usual, MUCH) ?? costOf(this.deep, MANY, usual, FREE) ?? 0;
    if (cost > 0) this.pauseUntil = now + Math.min(cost * PAUSE, LONGEST);
  }
}

/** What each of so many took more than usual; `undefined`: no more than `free`, or than they differ, which is the way to the server. */
function costOf(list: readonly number[], count: number, usual: number, free: number): number | undefined {
  if (list.length < count) return undefined;
  const quickest = Math.min(...list);
  const middle = [...list].sort((a, b) => a - b)[Math.floor(count / 2)] as number;
  const more = quickest - usual;
  return more > Math.max(free, 2 * (middle - quickest)) ? more : undefined;
}

const FEW = 4;
const MANY = 16;
/** Milliseconds that each of a few may take more than another, and each of many. */
const MUCH = 250;
const FREE = 0.5;
/** Times what a deep sweep took more: 2 % of the time goes into it. */
const PAUSE = 50;
/** Milliseconds. */
const LONGEST = 30_000;
