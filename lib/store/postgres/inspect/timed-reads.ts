import { systemClock } from '../../../time/clock.js';
import { outOfTime } from '../../find-by-id.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import type { Sql, Statement } from '../../sql.js';
import type { Plan, Rows, Select, TimedSelects } from '../../sql/timed-selects.js';
import { statement } from '../statement.js';

/** SQLSTATE of a statement that ran out of time. */
const CANCELED = '57014';

/**
 * Reads that the server ends by itself when their time is over. `in order`: rows come as an index has them, and the read stops
 * with the last one that is wanted. Without statistics of a table PostgreSQL would rather read all rows, and sort them.
 */
export class TimedReads implements TimedSelects {
  private readonly limits: Statement;

  constructor(private readonly connection: () => SqlConnection) {
    this.limits = statement(
      undefined,
      `select set_config('enable_seqscan', ?, true), set_config('enable_sort', p.plans, true),
         set_config('enable_bitmapscan', p.plans, true), set_config('jit', 'off', true), set_config('statement_timeout', ?, true)
       from (select ?::text as plans) p`,
    );
  }

  within(deadline: number, read: Select): Promise<Rows | undefined> {
    return this.several(deadline, (one) => one(read));
  }

  async select(deadline: number, read: Select): Promise<Rows> {
    const rows = await this.within(deadline, read);
    if (rows !== undefined) return rows;
    throw outOfTime();
  }

  several<T>(deadline: number, work: (read: (one: Select) => Promise<Rows>) => Promise<T>): Promise<T | undefined> {
    const bound = ({ text, values }: Select): Sql => statement(undefined, text).bindAll(values);
    return this.inTransaction((tx) => work((one) => this.limited(tx, deadline, bound(one), one.plan ?? 'in order')));
  }

  private async inTransaction<T>(work: (tx: SqlExecutor) => Promise<T>): Promise<T | undefined> {
    try {
      return await this.connection().transaction(work);
    } catch (error) {
      if (!(error instanceof TimeIsOver) && (error as { code?: string }).code !== CANCELED) throw error;
      return undefined;
    }
  }

  private async limited(tx: SqlExecutor, deadline: number, sql: Sql, plan: Plan): Promise<Rows> {
    const left = Math.floor(deadline - systemClock.monotonic());
    if (left <= 0) throw new TimeIsOver();
    const [scan, sort] = [plan === 'any plan' ? 'on' : 'off', plan === 'in order' ? 'off' : 'on'];
    await tx.run(this.limits.bind(scan, String(left), sort));
    return (await tx.run(sql)).rows;
  }
}

class TimeIsOver extends Error {}
