import { systemClock } from '../../../time/clock.js';
import { outOfTime } from '../../find-by-id.js';
import type { SqlDatabase } from '../../executor.js';
import { statement } from '../../sql.js';
import type { Rows, Select, TimedSelects } from '../../sql/timed-selects.js';
import { capabilitiesOf } from '../capabilities.js';
import type { MysqlServer } from '../schema/server.js';

/** `ER_STATEMENT_TIMEOUT` of MariaDB, `ER_QUERY_TIMEOUT` of MySQL. */
const CANCELED: ReadonlySet<unknown> = new Set([1969, 3024]);

/** Reads that the server ends by itself when their time is over. */
export class TimedSelect implements TimedSelects {
  constructor(
    private readonly database: SqlDatabase,
    private readonly server: MysqlServer,
  ) {}

  async within(deadline: number, { text, values }: Select): Promise<Rows | undefined> {
    const left = Math.floor(deadline - systemClock.monotonic());
    if (left <= 0) return undefined;
    const { selectWithin } = capabilitiesOf((await this.server.state()).version);
    const limited = statement(undefined, selectWithin(left, text.slice('select '.length)));
    try {
      return (await this.database.connection('admin').run(limited.bindAll(values))).rows;
    } catch (error) {
      if (!CANCELED.has((error as { errno?: unknown }).errno)) throw error;
      return undefined;
    }
  }

  async select(deadline: number, read: Select): Promise<Rows> {
    const rows = await this.within(deadline, read);
    if (rows !== undefined) return rows;
    throw outOfTime();
  }

  async several<T>(
    deadline: number,
    work: (read: (one: Select) => Promise<Rows>) => Promise<T>,
  ): Promise<T | undefined> {
    const read = async (one: Select): Promise<Rows> => {
      const rows = await this.within(deadline, one);
      if (rows === undefined) throw new TimeIsOver();
      return rows;
    };
    try {
      return await work(read);
    } catch (error) {
      if (error instanceof TimeIsOver) return undefined;
      throw error;
    }
  }
}

class TimeIsOver extends Error {}
