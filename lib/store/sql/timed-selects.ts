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

/** Reads that the server ends by itself when their time is over. Deadlines are monotonic, in milliseconds. */
export interface TimedSelects {
  /** @throws OutboxError `TIMEOUT` */
  select(deadline: number, read: Select): Promise<Rows>;
  /** @returns `undefined` when the time is over */
  within(deadline: number, read: Select): Promise<Rows | undefined>;
  /**
   * Reads of which each depends on the one before.
   * @returns `undefined` when the time is over
   */
  several<T>(deadline: number, work: (read: (one: Select) => Promise<Rows>) => Promise<T>): Promise<T | undefined>;
}
