import type { Clock } from '../../time/clock.js';

/** What is done with an item that cannot be written for a reason of its own. */
export interface AsideRules<T> {
  /** Whether an error of a write of one item speaks of that item alone. */
  readonly isOwn: (error: unknown) => boolean;
  /** Whether it may, as it ended for its time: somebody may hold this one locked. */
  readonly mayBeOwn: (error: unknown) => boolean;
  /** Items for which it says the same are written in their order; `undefined`: in any. */
  readonly orderOf: (item: T) => string | undefined;
  /** What is kept of one while it waits, perhaps for days. */
  readonly strip: (item: T) => T;
}

export interface AsideEntry<T> {
  readonly item: T;
  readonly order: string | undefined;
  /** Must not be written before it. */
  behind: T[];
  delay: number;
  due: number;
  /** It is being written now, by itself. */
  trying: boolean;
}

/**
 * Items that cannot be written for a reason of their own: they hold up nobody but those that must not pass them. Each is
 * tried again by itself, later each time.
 */
export class StuckWrites<T> {
  readonly entries = new Set<AsideEntry<T>>();
  /** @internal */ readonly byOrder = new Map<string, AsideEntry<T>>();
  /** Those behind them included. */
  size = 0;
  /** @internal */ cancelTimer: (() => void) | undefined;

  constructor(
    readonly clock: Clock,
    readonly rules: AsideRules<T>,
    /** The time of one has come. */
    readonly wake: () => void,
  ) {}

  /** Orders of which something is set aside. */
  get orders(): number {
    return this.byOrder.size;
  }

  holds(order: string): boolean {
    return this.byOrder.has(order);
  }

  /** Whether this one must not be written before one that is set aside. */
  mustWait(item: T): boolean {
    return this.byOrder.size > 0 && this.entryBefore(item) !== undefined;
  }

  /** @internal */ entryBefore(item: T): AsideEntry<T> | undefined {
    const order = this.rules.orderOf(item);
    return order === undefined ? undefined : this.byOrder.get(order);
  }

  /** One that must wait. */
  queue(item: T): void {
    this.entryBefore(item)?.behind.push(this.rules.strip(item));
    this.size += 1;
  }

  /**
   * @param took milliseconds until its write failed: while it waits for a lock the others wait, too
   * @returns milliseconds until it is tried again
   */
  put(item: T, took: number): number {
    const order = this.rules.orderOf(item);
    const delay = atLeast(FIRST_DELAY, took);
    const due = this.clock.monotonic() + delay;
    const entry = { item: this.rules.strip(item), order, behind: [], delay, due, trying: false };
    this.entries.add(entry);
    if (order !== undefined) this.byOrder.set(order, entry);
    this.size += 1;
    this.schedule();
    return delay;
  }

  /** The one that has waited longest past its time. */
  next(): AsideEntry<T> | undefined {
    const first = this.soonest();
    if (first === undefined || first.due > this.clock.monotonic()) return undefined;
    first.trying = true;
    return first;
  }

  /** It could not be written again. @returns milliseconds until it is tried again */
  again(entry: AsideEntry<T>, own: boolean, took: number): number {
    if (own) entry.delay = atLeast(entry.delay * 2, took);
    entry.due = this.clock.monotonic() + entry.delay;
    entry.trying = false;
    this.schedule();
    return entry.delay;
  }

  /** It is written. @returns those that waited behind it, in their order */
  through(entry: AsideEntry<T>): T[] {
    this.remove(entry);
    this.schedule();
    return entry.behind;
  }

  /** Gives up and returns those for which `which` holds, but for one that is being written now. */
  drop(which: (item: T) => boolean): T[] {
    const dropped: T[] = [];
    for (const entry of this.entries) {
      if (!which(entry.item)) continue;
      if (entry.trying) this.size -= entry.behind.length;
      else {
        this.remove(entry);
        dropped.push(entry.item);
      }
      dropped.push(...entry.behind.splice(0));
    }
    this.schedule();
    return dropped;
  }

  stop(): void {
    this.cancelTimer?.();
    this.cancelTimer = undefined;
  }

  /** @internal */ remove(entry: AsideEntry<T>): void {
    this.entries.delete(entry);
    if (entry.order !== undefined) this.byOrder.delete(entry.order);
    this.size -= 1 + entry.behind.length;
  }

  /** @internal */ soonest(): AsideEntry<T> | undefined {
    let first: AsideEntry<T> | undefined;
    for (const entry of this.entries) {
      if (!entry.trying && (first === undefined || entry.due < first.due)) first = entry;
    }
    return first;
  }

  /** @internal */ schedule(): void {
    this.stop();
    const first = this.soonest();
    if (first === undefined) return;
    this.cancelTimer = this.clock.after(first.due - this.clock.monotonic(), this.wake);
  }
}

/** Milliseconds. */
const FIRST_DELAY = 1_000;
const MAX_DELAY = 30_000;

/** Its tries are left a quarter of the time at most. */
const atLeast = (delay: number, took: number): number => Math.min(MAX_DELAY, Math.max(delay, took * 3));
