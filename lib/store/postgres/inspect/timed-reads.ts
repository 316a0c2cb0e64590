import type { SqlConnection } from '../../executor.js';
import type { Statement } from '../../sql.js';
import { TimedSelects, type Rows, type Select, type TimeLeft } from '../../sql/timed-selects.js';
import { statement } from '../statement.js';

/**
 * `in order`: rows come as an index has them, and the read stops with the last one that is wanted. Without statistics of a table
 * PostgreSQL would rather read all rows, and sort them.
 */
export class TimedReads extends TimedSelects {
  private readonly limits: Statement;

  constructor(private readonly connection: () => SqlConnection) {
    super();
    this.limits = statement(
      undefined,
      `select set_config('enable_seqscan', ?, true), set_config('enable_sort', p.plans, true),
         set_config('enable_bitmapscan', p.plans, true), set_config('jit', 'off', true), set_config('statement_timeout', ?, true)
       from (select ?::text as plans) p`,
    );
  }

  protected reading<T>(left: TimeLeft, work: (read: (one: Select) => Promise<Rows>) => Promise<T>): Promise<T> {
    return this.connection().transaction((tx) =>
      work(async ({ text, values, plan = 'in order' }) => {
        const [scan, sort] = [plan === 'any plan' ? 'on' : 'off', plan === 'in order' ? 'off' : 'on'];
        await tx.run(this.limits.bind(scan, String(left()), sort));
        return (await tx.run(statement(undefined, text).bindAll(values))).rows;
      }),
    );
  }
}
