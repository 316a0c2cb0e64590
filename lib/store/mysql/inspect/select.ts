import type { SqlDatabase } from '../../executor.js';
import { statement } from '../../sql.js';
import { TimedSelects, type Rows, type Select, type TimeLeft } from '../../sql/timed-selects.js';
import { capabilitiesOf } from '../capabilities.js';
import type { MysqlServer } from '../schema/server.js';

/** Each server has words of its own for the time of a read. */
export class TimedSelect extends TimedSelects {
  constructor(
    private readonly database: SqlDatabase,
    private readonly server: MysqlServer,
  ) {
    super();
  }

  protected reading<T>(left: TimeLeft, work: (read: (one: Select) => Promise<Rows>) => Promise<T>): Promise<T> {
    return work(async ({ text, values }) => {
      const { selectWithin } = capabilitiesOf((await this.server.state()).version);
      const limited = statement(undefined, selectWithin(left(), text.slice('select '.length)));
      return (await this.database.connection('admin').run(limited.bindAll(values))).rows;
    });
  }
}
