import { waitedTooLong } from '../../store/database-errors.js';

/**
 * What reading costs beyond what it brings: walking over rows that are gone and still stand in the index. Milliseconds of
 * about the last minute.
 */
export class ReadCost {
  private sum = 0;
  private at = 0;

  constructor(
    /** Monotonic. */
    readonly now: () => number,
    readonly changed: () => void = () => undefined,
  ) {}

  /** A statement that returned so many rows. */
  took(ms: number, rows = 0): void {
    this.walked(ms - ORDINARY - rows * A_ROW);
  }

  /** A statement that returns messages. One that is cancelled for its time returned none. */
  async measure<T extends { readonly messages: readonly unknown[] }>(work: () => Promise<T>): Promise<T> {
    const began = this.now();
    try {
      const result = await work();
      this.took(this.now() - began, result.messages.length);
      return result;
    } catch (error) {
      if (waitedTooLong(error)) this.took(this.now() - began);
      throw error;
    }
  }

  /** So long over what is gone. */
  walked(ms: number): void {
    if (ms > 0) this.add(ms);
    this.changed();
  }

  /** Somebody should look why. */
  get isFelt(): boolean {
    return this.recent() >= FELT;
  }

  /** Messages are late for it. */
  get isSlow(): boolean {
    return this.recent() >= SLOW;
  }

  private add(ms: number): void {
    this.sum = this.recent() + ms;
    this.at = this.now();
  }

  /** What is older counts less and less. */
  private recent(): number {
    return this.sum * 2 ** ((this.at - this.now()) / HALF);
  }
}

/** Milliseconds that a statement may take, on a busy server or one that is far away; and for each row. */
const ORDINARY = 50;
const A_ROW = 0.2;
/** Milliseconds after which a cost counts half. A turn of the full scan comes every 45 s. */
const HALF = 45_000;
/** Some 100,000 rows that are gone. */
const FELT = 100;
/** A tenth of the time. */
const SLOW = 6_000;
