import type { SqlDatabase, SqlExecutor, SqlResult } from '../executor.js';
import { inTransaction, retried } from '../retry.js';
import type { Sql } from '../sql.js';
import type { Dialect } from './dialect.js';

/** The connection of operators. Their rows are also a relay's, and another operator's: the victim of a deadlock runs again. */
export class OperatorDatabase {
  constructor(
    private readonly database: SqlDatabase,
    readonly dialect: Dialect,
  ) {}

  run(sql: Sql): Promise<SqlResult> {
    return retried(() => this.database.connection('admin').run(sql));
  }

  transaction<T>(work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
    return inTransaction(this.database.connection('admin'), work);
  }

  /** @returns the number that the row was given */
  async insert(tx: SqlExecutor, sql: Sql): Promise<string> {
    const { rows } = await tx.run(sql);
    const { lastNumber } = this.dialect;
    const [row] = lastNumber === undefined ? rows : (await tx.run(lastNumber.bind())).rows;
    return String(row?.[0]);
  }
}
