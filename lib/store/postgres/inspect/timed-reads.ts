import { systemClock } from '../../../time/clock.js';
import { outOfTime } from '../../find-by-id.js';
import type { SqlConnection, SqlResult } from '../../executor.js';
import type { Sql, Statement } from '../../sql.js';
import type { TimedSelects } from '../../sql/index-pages.js';
import { statement } from '../statement.js';

/** SQLSTATE of a statement that ran out of time. */
const CANCELED = '57014';

/** `by index` forbids to read a whole table, `in order` also to sort and to collect. */
export type Plan = 'in order' | 'by index' | 'any plan';

/**
 * Reads that the server ends by itself when their time is over. `in order`: rows come as an index has them, and the read stops
 * with the last one that is wanted. Without statistics of a table PostgreSQL would rather read all rows, and sort them.
 */
export class TimedReads implements TimedSelects {
  /** @internal */ readonly limits: Statement;

  constructor(readonly connection: () => SqlConnection) {
    this.limits = statement(
      undefined,
      `select set_config('enable_seqscan', ?, true), set_config('enable_sort', p.plans, true),
         set_config('enable_bitmapscan', p.plans, true), set_config('jit', 'off', true), set_config('statement_timeout', ?, true)
       from (select ?::text as plans) p`,
    );
  }

  /** @returns `undefined` when the time is over */
  within(deadline: number, plan: Plan, sql: Sql): Promise<SqlResult | undefined> {
    return this.several(deadline, plan, (read) => read(sql));
  }

  /**
   * Reads of which each depends on the one before.
   * @returns `undefined` when the time is over
   */
  async several<T>(
    deadline: number,
    plan: Plan,
    work: (read: (sql: Sql) => Promise<SqlResult>) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await this.connection().transaction(async (tx) => {
        const left = (): number => Math.floor(deadline - systemClock.monotonic());
        if (left() <= 0) return undefined;
        const [scan, sort] = [plan === 'any plan' ? 'on' : 'off', plan === 'in order' ? 'off' : 'on'];
        await tx.run(this.limits.bind(scan, String(left()), sort));
        return work((sql) => (left() > 0 ? tx.run(sql) : Promise.reject(new TimeIsOver())));
      });
    } catch (error) {
      if (!(error instanceof TimeIsOver) && (error as { code?: string }).code !== CANCELED) throw error;
      return undefined;
    }
  }

  async select(deadline: number, rest: string, values: readonly unknown[]): Promise<SqlResult['rows']> {
    return (await this.inTime(deadline, statement(undefined, `select ${rest}`).bindAll(values))).rows;
  }

  async inTime(deadline: number, sql: Sql): Promise<SqlResult> {
    const result = await this.within(deadline, 'in order', sql);
    if (result !== undefined) return result;
    throw outOfTime();
  }
}

/** Of {@link TimedReads.several}, between two reads. */
class TimeIsOver extends Error {}
