import type { Clock } from '../../time/clock.js';
import { countFitting } from '../../message/fitting-by-bytes.js';
import { StuckWrites, type AsideEntry, type AsideRules } from './stuck-writes.js';

/** What one write may hold. */
export interface WriteBounds<T> {
  readonly items: number;
  /** The item that reaches them is the last one. */
  readonly bytes: number;
  readonly bytesOf: (item: T) => number;
}

/**
 * Collects items while a write is under way and writes what came together in one go: the batch grows by itself with the
 * load and is one item when there is none. Items leave in the order in which they came; a failing write is repeated with
 * half of them, or with one if it took too long, as it may have failed for its size, or for one of them: that one is set aside.
 */
export class BatchWriter<T> {
  waiting: T[] = [];
  /** From the first item until nothing waits but what is set aside. */
  active: Promise<void> | undefined;
  /** The write that is out now, and what is in it; one that was set aside stays there. */
  writing: Promise<void> | undefined;
  inHand: readonly T[] = [];
  readonly aside: StuckWrites<T>;
  stopped = false;
  /** Items of the next write: half of those of one that failed, twice as many after each that did not. @internal */
  most: number;
  /** So many in front took too long together: they go one by one, while that is quick, as one of them may be locked. @internal */
  suspects = 0;
  /** Writes that failed one after the other since the last that did not; and those that spoke of one item. @internal */
  failures = 0;
  /** @internal */ ownFailures = 0;
  /** @internal Since when (monotonic) not everything could be written, and the last failure. */
  trouble: { readonly since: number; readonly error: unknown } | undefined;
  /** `left`: of what waits and is in hand, how many from the first are not written. @internal */
  quieting: { left: number; readonly resolve: () => void }[] = [];

  constructor(
    readonly clock: Clock,
    readonly bounds: WriteBounds<T>,
    readonly write: (batch: readonly T[]) => Promise<void>,
    /** Told of each failure that is waited for. */
    readonly failed: (error: unknown, retryIn: number) => void,
    readonly rules: AsideRules<T>,
  ) {
    this.most = bounds.items;
    this.aside = new StuckWrites(clock, rules, () => this.start());
  }

  add(item: T): void {
    if (this.aside.mustWait(item)) return this.aside.queue(item);
    this.waiting.push(item);
    this.start();
  }

  /** Something could not be written and is not yet: since when, monotonic, and the last failure. */
  get failing(): { readonly since: number; readonly error: unknown } | undefined {
    return this.failures > 0 || this.aside.size > 0 ? this.trouble : undefined;
  }

  /** Without what is set aside. */
  get size(): number {
    return this.waiting.length + (this.active === undefined ? 0 : 1);
  }

  /** Resolves when all that was added so far is written or set aside, whatever comes after it, or when it is given up. */
  quiet(): Promise<void> {
    const left = this.inHand.length + this.waiting.length;
    if (this.active === undefined || left === 0) return Promise.resolve();
    return new Promise((resolve) => this.quieting.push({ left, resolve }));
  }

  /** Gives up what cannot be written: the rows stay in the database for the next owner. */
  stop(): void {
    this.stopped = true;
    this.aside.stop();
    this.cancelWait?.();
  }
  /** @internal */ cancelWait: (() => void) | undefined;

  /** @internal */ start(): void {
    this.active ??= Promise.resolve().then(() => this.run());
  }

  /** @internal */ async run(): Promise<void> {
    this.ownFailures = 0;
    for (let turn = true; !this.stopped; turn = !turn) {
      // In turns: many of them must not keep what comes now.
      const retry = turn || this.waiting.length === 0 ? this.aside.next() : undefined;
      if (retry === undefined && this.waiting.length === 0) break;
      const batch = retry === undefined ? this.next() : [retry.item];
      const since = this.clock.monotonic();
      try {
        await (this.writing = this.write(batch));
        this.wrote(batch, retry, this.clock.monotonic() - since);
      } catch (error) {
        this.writing = undefined;
        const pause = this.keep(batch, retry, error, this.clock.monotonic() - since);
        if (pause > 0 && !this.stopped) await this.pause(pause);
      }
    }
    this.active = undefined;
    this.writing = undefined;
    if (this.stopped) this.aside.stop();
    else this.aside.schedule(); // a timer may come before its time
    for (const { resolve } of this.quieting.splice(0)) resolve();
  }

  /** @internal */ next(): readonly T[] {
    const { waiting, bounds } = this;
    const count = countFitting(waiting, bounds.bytes, bounds.bytesOf, this.most);
    this.inHand = count === waiting.length ? waiting : waiting.slice(0, count);
    this.waiting = count === waiting.length ? [] : waiting.slice(count);
    return this.inHand;
  }

  /** @internal */ wrote(batch: readonly T[], retry: AsideEntry<T> | undefined, took: number): void {
    this.failures = this.ownFailures = 0;
    if (retry === undefined) this.suspects = Math.max(0, this.suspects - batch.length);
    if (this.suspects === 0 || took > QUICK) this.most = Math.min(this.bounds.items, this.most * 2);
    if (retry === undefined) {
      this.inHand = [];
      this.passed(batch.length);
      return;
    }
    const behind = this.aside.through(retry);
    this.waiting = [...behind, ...this.waiting];
    for (const quiet of this.quieting) quiet.left += behind.length;
  }

  /** What could not be written waits. @returns milliseconds until the next write @internal */
  keep(batch: readonly T[], retry: AsideEntry<T> | undefined, error: unknown, took: number): number {
    this.inHand = [];
    const alone = batch.length === 1 ? (batch[0] as T) : undefined;
    this.trouble = { since: this.failing?.since ?? this.clock.monotonic(), error };
    const mayBeOwn = this.rules.mayBeOwn(error);
    const own = this.rules.isOwn(error) || (alone !== undefined && mayBeOwn);
    if (own && alone !== undefined) {
      this.failed(error, retry === undefined ? this.putAside(alone, took) : this.aside.again(retry, true, took));
      const inARow = this.ownFailures++; // after the first it may be all of them
      return inARow === 0 ? 0 : Math.min(MAX_OWN_PAUSE, 100 * 2 ** Math.min(inARow - 1, 10));
    }
    if (retry !== undefined) this.aside.again(retry, false, took);
    else {
      this.waiting = [...batch, ...this.waiting];
      this.most = mayBeOwn ? 1 : Math.max(1, batch.length >> 1);
      if (mayBeOwn) this.suspects = Math.max(this.suspects, batch.length);
    }
    if (own) return 0; // which of them it is shows in halves
    const retryIn = Math.min(5_000, 100 * 2 ** Math.min(this.failures, 10));
    this.failures += 1;
    this.failed(error, retryIn);
    return retryIn;
  }

  /** With what must not pass it. @internal */
  putAside(item: T, took: number): number {
    const delay = this.aside.put(item, took);
    this.suspects = Math.max(0, this.suspects - 1);
    this.passed(1);
    if (!this.waiting.some((other) => this.aside.mustWait(other))) return delay;
    const stays = (other: T): boolean => !this.aside.mustWait(other);
    for (const quiet of this.quieting) quiet.left = this.waiting.slice(0, quiet.left).filter(stays).length;
    for (const other of this.waiting) if (!stays(other)) this.aside.queue(other);
    this.waiting = this.waiting.filter(stays);
    this.passed(0);
    return delay;
  }

  /** So many from the first. @internal */
  passed(count: number): void {
    for (const quiet of this.quieting) quiet.left -= count;
    while (this.quieting[0] !== undefined && this.quieting[0].left <= 0) this.quieting.shift()?.resolve();
  }

  /** @internal */ pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.clock.after(ms, resolve);
      this.cancelWait = () => {
        cancel();
        resolve();
      };
    });
  }
}

/** Milliseconds. */
const MAX_OWN_PAUSE = 1_000;
const QUICK = 100;
