import { systemClock } from '../../../time/clock.js';
import { outOfTime } from '../../find-by-id.js';
import type { SqlDatabase } from '../../executor.js';
import { statement } from '../../sql.js';
import type { TimedSelects } from '../../sql/index-pages.js';
import { capabilitiesOf } from '../capabilities.js';
import type { Row } from '../columns.js';
import type { MysqlServer } from '../schema/server.js';

/** `ER_STATEMENT_TIMEOUT` of MariaDB, `ER_QUERY_TIMEOUT` of MySQL. */
const CANCELED: ReadonlySet<unknown> = new Set([1969, 3024]);

/** Reads that the server ends by itself when their time is over. */
export class TimedSelect implements TimedSelects {
  constructor(
    readonly database: SqlDatabase,
    readonly server: MysqlServer,
  ) {}

  /**
   * @param rest what follows `select`
   * @returns `undefined` when the time is over
   */
  async within(deadline: number, rest: string, values: readonly unknown[]): Promise<readonly Row[] | undefined> {
    const left = Math.floor(deadline - systemClock.monotonic());
    if (left <= 0) return undefined;
    const { selectWithin } = capabilitiesOf((await this.server.state()).version);
    try {
      return (
        await this.database.connection('admin').run(statement(undefined, selectWithin(left, rest)).bind(...values))
      ).rows;
    } catch (error) {
      if (!CANCELED.has((error as { errno?: unknown }).errno)) throw error;
      return undefined;
    }
  }

  async select(deadline: number, rest: string, values: readonly unknown[]): Promise<readonly Row[]> {
    const rows = await this.within(deadline, rest, values);
    if (rows !== undefined) return rows;
    throw outOfTime();
  }
}
