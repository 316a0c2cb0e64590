import type { Clock } from '../dispatch/clock.js';
import { countFitting } from '../large-payloads.js';

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
 * half of them, as it may have failed for its size.
 */
export class BatchWriter<T> {
  waiting: T[] = [];
  /** From the first item until nothing waits. */
  active: Promise<void> | undefined;
  /** The write that is out now, and what is in it. */
  writing: Promise<void> | undefined;
  inHand: readonly T[] = [];
  stopped = false;
  /** Items of the next write: half of those of one that failed, twice as many after each that did not. @internal */
  most: number;
  /** @internal */ added = 0;
  /** @internal */ done = 0;
  /** @internal */ quieting: { readonly upTo: number; readonly resolve: () => void }[] = [];

  constructor(
    readonly clock: Clock,
    readonly bounds: WriteBounds<T>,
    readonly write: (batch: readonly T[]) => Promise<void>,
    /** Told of each failure. */
    readonly failed: (error: unknown, retryIn: number) => void,
  ) {
    this.most = bounds.items;
  }

  add(item: T): void {
    this.waiting.push(item);
    this.added += 1;
    if (this.active === undefined) this.active = Promise.resolve().then(() => this.run());
  }

  /** Everything that was added and is not written. */
  *[Symbol.iterator](): Iterator<T> {
    yield* this.inHand;
    yield* this.waiting;
  }

  get size(): number {
    return this.waiting.length + (this.active === undefined ? 0 : 1);
  }

  /** Resolves when all that was added so far is written, whatever comes after it, or when it is given up. */
  quiet(): Promise<void> {
    if (this.active === undefined || this.done === this.added) return Promise.resolve();
    return new Promise((resolve) => this.quieting.push({ upTo: this.added, resolve }));
  }

  /** Gives up what cannot be written: the rows stay in the database for the next owner. */
  stop(): void {
    this.stopped = true;
    this.cancelWait?.();
  }
  /** @internal */ cancelWait: (() => void) | undefined;

  /** @internal */ async run(): Promise<void> {
    let failures = 0;
    while (this.waiting.length > 0 && !this.stopped) {
      const batch = this.next();
      try {
        await (this.writing = this.write(batch));
        this.inHand = [];
        failures = 0;
        this.most = Math.min(this.bounds.items, this.most * 2);
        this.done += batch.length;
        while (this.quieting[0] !== undefined && this.quieting[0].upTo <= this.done) this.quieting.shift()?.resolve();
      } catch (error) {
        this.waiting = [...batch, ...this.waiting];
        this.inHand = [];
        this.most = Math.max(1, batch.length >> 1);
        this.writing = undefined;
        const retryIn = Math.min(5_000, 100 * 2 ** Math.min(failures, 10));
        failures += 1;
        this.failed(error, retryIn);
        await this.pause(retryIn);
      }
    }
    this.active = undefined;
    this.writing = undefined;
    for (const { resolve } of this.quieting.splice(0)) resolve();
  }

  /** @internal */ next(): readonly T[] {
    const { waiting, bounds } = this;
    const count = countFitting(waiting, bounds.bytes, bounds.bytesOf, this.most);
    this.inHand = count === waiting.length ? waiting : waiting.slice(0, count);
    this.waiting = count === waiting.length ? [] : waiting.slice(count);
    return this.inHand;
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
