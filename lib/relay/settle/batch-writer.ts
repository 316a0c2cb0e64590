import type { Clock } from '../../time/clock.js';
import { countFitting } from '../../message/fitting-by-bytes.js';
import { isOfTheRow, waitedTooLong } from '../../store/database-errors.js';

export interface WriteRules<T> {
  /** What one write may hold. */
  readonly items: number;
  /** The item that reaches them is the last one. */
  readonly bytes: number;
  readonly bytesOf: (item: T) => number;
  /** Items for which it says the same are written in their order; `undefined`: in any. */
  readonly orderOf: (item: T) => string | undefined;
  /** What is kept of one that cannot be written, while it waits, perhaps for days. */
  readonly strip: (item: T) => T;
}

interface Stuck<T> {
  readonly item: T;
  readonly delay: number;
  readonly due: number;
}

/**
 * Collects items while a write is under way and writes what came together in one go: the batch grows by itself with the load and is
 * one item when there is none. Items leave in the order in which they came. A failing write is repeated with half of them, or
 * with one if it took too long, as it may have failed for its size, or for one of them. An item that cannot be written for a reason
 * of its own is quarantined: it is tried again by itself, later each time, and holds up nothing but what must not pass it.
 */
export class BatchWriter<T> {
  /** What is not written, in its order: what is out and what is quarantined included. */
  waiting: T[] = [];
  /** From the first item until nothing waits but what is quarantined. */
  active: Promise<void> | undefined;
  /** The write that is out now, and what is in it. */
  writing: Promise<void> | undefined;
  private inHand: readonly T[] = [];
  /** The last write, with the pause after it. */
  private turn: Promise<void> | undefined;
  private stopped = false;
  /** The first of each order that is quarantined, by that order, or by itself. */
  private readonly stuck = new Map<unknown, Stuck<T>>();
  /** Items of the next write: half of those of one that failed, twice as many after each that did not. */
  private most: number;
  /** So many in front took too long together: they go one by one, while that is quick, as one of them may be locked. */
  private suspects = 0;
  /** Writes that failed one after the other since the last that did not. */
  private failures = 0;
  /** Since when (monotonic) not everything could be written, and the last failure. */
  private trouble: { readonly since: number; readonly error: unknown } | undefined;
  private cancelTimer: (() => void) | undefined;
  private cancelWait: (() => void) | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly rules: WriteRules<T>,
    private readonly write: (batch: readonly T[]) => Promise<void>,
    /** Told of each failure that is waited for. */
    private readonly failed: (error: unknown, retryIn: number) => void,
  ) {
    this.most = rules.items;
  }

  add(item: T): void {
    const isQuarantined = this.isQuarantined(item);
    this.waiting.push(isQuarantined ? this.rules.strip(item) : item);
    if (!isQuarantined) this.start();
  }

  /** Something could not be written and is not yet: since when, monotonic, and the last failure. */
  get failing(): { readonly since: number; readonly error: unknown } | undefined {
    return this.waiting.length > 0 && this.failures + this.stuck.size > 0 ? this.trouble : undefined;
  }

  /** How many are quarantined. */
  get quarantined(): number {
    return this.waiting.length - this.free.length;
  }

  holds(order: string): boolean {
    return this.stuck.has(order);
  }

  /** Gives up what is quarantined and for which `which` holds, but for one that is being written now. */
  drop(which: (item: T) => boolean): readonly T[] {
    const isDropped = (item: T): boolean => this.isQuarantined(item) && !this.inHand.includes(item) && which(item);
    const dropped = this.waiting.filter(isDropped);
    this.remove(new Set(dropped));
    this.schedule();
    return dropped;
  }

  /** Resolves when all that was added so far is written or quarantined, whatever comes after it, or when it is given up. */
  async quiet(): Promise<void> {
    const before = new Set(this.free);
    while (this.active !== undefined && this.free.some((item) => before.has(item))) await this.turn;
  }

  /** Gives up what cannot be written: the rows stay in the database for the next owner. */
  stop(): void {
    this.stopped = true;
    this.cancelTimer?.();
    this.cancelWait?.();
  }

  private get free(): T[] {
    return this.stuck.size === 0 ? this.waiting : this.waiting.filter((item) => !this.isQuarantined(item));
  }

  private isQuarantined(item: T): boolean {
    return this.stuck.size > 0 && this.stuck.has(this.nameOf(item));
  }

  private nameOf(item: T): unknown {
    return this.rules.orderOf(item) ?? item;
  }

  private start(): void {
    this.active ??= Promise.resolve().then(() => this.run());
  }

  private async run(): Promise<void> {
    this.failures = 0;
    for (let retries = true; !this.stopped; retries = !retries) {
      this.inHand = this.next(retries);
      if (this.inHand.length === 0) break;
      await (this.turn = this.writeOnce(this.inHand));
    }
    this.active = undefined;
    this.schedule();
  }

  private async writeOnce(batch: readonly T[]): Promise<void> {
    const since = this.clock.monotonic();
    let pause = 0;
    try {
      await (this.writing = this.write(batch));
      this.wrote(batch, this.clock.monotonic() - since);
    } catch (error) {
      pause = this.keep(batch, error, this.clock.monotonic() - since);
    }
    this.writing = undefined;
    this.inHand = [];
    if (pause > 0 && !this.stopped) await this.pause(pause);
  }

  /** In turns with what is quarantined: much of that must not keep what comes now. */
  private next(retries: boolean): readonly T[] {
    const { free, rules, soonest } = this;
    const isDue = soonest !== undefined && soonest.due <= this.clock.monotonic();
    if (isDue && (retries || free.length === 0)) return [soonest.item];
    return free.slice(0, countFitting(free, rules.bytes, rules.bytesOf, this.most));
  }

  private wrote(batch: readonly T[], took: number): void {
    this.failures = 0;
    this.suspects = Math.max(0, this.suspects - batch.length);
    if (this.suspects === 0 || took > QUICK) this.most = Math.min(this.rules.items, this.most * 2);
    if (this.stuck.size === 0) this.waiting = this.waiting.slice(batch.length);
    else this.remove(new Set(batch));
  }

  private remove(items: ReadonlySet<T>): void {
    this.waiting = this.waiting.filter((item) => !items.has(item));
    for (const [name, { item }] of this.stuck) if (items.has(item)) this.stuck.delete(name);
  }

  /** @returns milliseconds until the next write */
  private keep(batch: readonly T[], error: unknown, took: number): number {
    const [first] = batch as [T];
    const tookTooLong = waitedTooLong(error);
    // Of one item that took too long: somebody may hold it locked.
    const isOwn = isOfTheRow(error) || (tookTooLong && batch.length === 1);
    this.trouble = { since: this.failing?.since ?? this.clock.monotonic(), error };
    if (isOwn && batch.length === 1) {
      this.failed(error, this.quarantine(first, took));
      const inARow = this.failures++; // after the first it may be all of them
      return inARow === 0 ? 0 : Math.min(1_000, 100 * 2 ** Math.min(inARow - 1, 10));
    }
    this.most = tookTooLong ? 1 : Math.max(1, batch.length >> 1);
    if (tookTooLong) this.suspects = Math.max(this.suspects, batch.length);
    if (isOwn) return 0; // which of them it is shows in halves
    const retryIn = Math.min(5_000, 100 * 2 ** Math.min(this.failures, 10));
    this.failures += 1;
    this.failed(error, retryIn);
    return retryIn;
  }

  /**
   * With what must not pass it.
   * @param took milliseconds until its write failed: while it waits for a lock the others wait, too
   * @returns milliseconds until it is tried again
   */
  private quarantine(item: T, took: number): number {
    const { clock, rules } = this;
    const before = this.stuck.get(this.nameOf(item));
    const delay = Math.min(MAX_DELAY, Math.max(FIRST_DELAY, (before?.delay ?? 0) * 2, took * 3));
    const kept = before === undefined ? rules.strip(item) : item;
    const name = this.nameOf(kept);
    this.stuck.set(name, { item: kept, delay, due: clock.monotonic() + delay });
    if (before !== undefined) return delay;
    this.suspects = Math.max(0, this.suspects - 1);
    this.waiting = this.waiting.map((each) =>
      each === item ? kept : rules.orderOf(each) === name ? rules.strip(each) : each,
    );
    return delay;
  }

  private get soonest(): Stuck<T> | undefined {
    let first: Stuck<T> | undefined;
    for (const each of this.stuck.values()) if (first === undefined || each.due < first.due) first = each;
    return first;
  }

  private schedule(): void {
    this.cancelTimer?.();
    const { soonest, clock } = this;
    if (soonest === undefined || this.stopped) return;
    this.cancelTimer = clock.after(soonest.due - clock.monotonic(), () => this.start());
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.clock.after(ms, resolve);
      this.cancelWait = () => {
        cancel();
        resolve();
      };
    });
  }
}

/** Milliseconds. Its tries are left a quarter of the time at most. */
const FIRST_DELAY = 1_000;
const MAX_DELAY = 30_000;
const QUICK = 100;
