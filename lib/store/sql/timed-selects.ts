import { systemClock } from '../../time/clock.js';
import { tookTooLong } from '../database-errors.js';
import { outOfTime } from '../find-by-id.js';

/** `by index` forbids to read a whole table, `in order` also to sort and to collect. Servers that always go by indexes ignore it. */
export type Plan = 'in order' | 'by index' | 'any plan';

/** A read. */
export interface Select {
  /** From `select` on. */
  readonly text: string;
  readonly values: readonly unknown[];
  /** Default: `in order`. */
  readonly plan?: Plan;
}
export type Rows = readonly (readonly unknown[])[];

export const select = (text: string, ...values: readonly unknown[]): Select => ({ text, values });

/** Milliseconds that a read may take from now on. @throws TimeIsOver */
export type TimeLeft = () => number;
class TimeIsOver extends Error {}

/** Reads that the server ends by itself when their time is over. Deadlines are monotonic, in milliseconds. */
export abstract class TimedSelects {
  /** Runs reads one after the other, each with the time that is left then. */
  protected abstract reading<T>(left: TimeLeft, work: (read: (one: Select) => Promise<Rows>) => Promise<T>): Promise<T>;

  /**
   * Reads of which each depends on the one before.
   * @returns `undefined` when the time is over
   */
  async several<T>(
    deadline: number,
    work: (read: (one: Select) => Promise<Rows>) => Promise<T>,
  ): Promise<T | undefined> {
    const left = (): number => {
      const milliseconds = Math.floor(deadline - systemClock.monotonic());
      if (milliseconds <= 0) throw new TimeIsOver();
      return milliseconds;
    };
    try {
      return await this.reading(left, work);
    } catch (error) {
      if (error instanceof TimeIsOver || tookTooLong(error)) return undefined;
      throw error;
    }
  }

  /** @returns `undefined` when the time is over */
  within(deadline: number, read: Select): Promise<Rows | undefined> {
    return this.several(deadline, (one) => one(read));
  }

  /** @throws OutboxError `TIMEOUT` */
  async select(deadline: number, read: Select): Promise<Rows> {
    const rows = await this.within(deadline, read);
    if (rows === undefined) throw outOfTime();
    return rows;
  }
}
